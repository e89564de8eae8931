"""The form of a source, typed per kind. Secrets go in and never come out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from django import forms
from django.forms import BoundField
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.models import Datasource
from catalog.sources.kinds import Option, SourceKind
from core.translation import translated
from frontend.forms.optional import OptionalForm
from frontend.typed_secrets import IS_KEPT

MAIN = ("name", "host", "port", "database", "username", "password", "tls")
OPTION = "option_"
TLS = [
    ("off", _("off: not encrypted")),
    ("require", _("require: encrypted, any certificate")),
    ("verify", _("verify: encrypted, certificate checked")),
]


class SourceForm(OptionalForm):
    """Fields of every kind; the options of the chosen one are added per instance.
    secret: the password typed now, or kept from the try before."""

    needed = ("name", "host", "port", "database", "username", "tls")
    required_css_class = "is-required"
    name = forms.CharField(
        max_length=63,
        label=_("Name"),
        help_text=_(
            "Prefix of lake table names (a-z, 0-9, _). Cannot be changed later."
        ),
    )
    host = forms.CharField(
        max_length=253,
        label=_("Host"),
    )
    port = forms.IntegerField(min_value=1, max_value=65535, label=_("Port"))
    database = forms.CharField(max_length=200, label=_("Database"))
    username = forms.CharField(max_length=200, label=_("User"))
    password = forms.CharField(
        max_length=1000,
        strip=False,
        label=_("Password"),
        widget=forms.PasswordInput(
            render_value=False, attrs={"autocomplete": "new-password"}
        ),
    )
    tls = forms.ChoiceField(choices=TLS, label=_("TLS"))

    def __init__(
        self,
        *args: Any,
        kind: SourceKind,
        stored: Datasource | None = None,
        kept: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.secret = kept
        self.kind = kind
        self.fields["host"].help_text = gettext(
            "A host name or address; or paste %(url)s."
        ) % {"url": f"{kind.name}://user@host:{kind.default_port}/…"}
        database = self.fields["database"]
        database.required = kind.needs_database
        database.help_text = capfirst(gettext(kind.database_means))
        for option in kind.options:
            self.fields[OPTION + option.name] = _field_of(option)
        if stored is not None:
            del self.fields["name"]
        self.fields["password"].help_text = _about_password(
            is_stored=stored is not None, is_kept=bool(kept)
        )

    @property
    def main_fields(self) -> list[BoundField]:
        return [self[name] for name in MAIN if name in self.fields]

    @property
    def option_fields(self) -> list[BoundField]:
        return [self[name] for name in self.fields if name.startswith(OPTION)]

    @property
    def has_option_errors(self) -> bool:
        return any(name.startswith(OPTION) for name in self.errors)

    def options(self) -> dict[str, Any]:
        """The typed options, as `catalog.sources.kinds` checks them."""
        return {
            option.name: _value_of(option, self.cleaned_data[OPTION + option.name])
            for option in self.kind.options
            if OPTION + option.name in self.cleaned_data
        }

    def point_at(self, errors: object) -> bool:
        """Show a service's pointers at their fields; False when there are none."""
        found = False
        for error in errors if isinstance(errors, list) else []:
            name = str(error.get("pointer", "")).removeprefix("/")
            name = name.replace("options/", OPTION)
            if name in self.fields:
                found = True
                if name not in self.errors:
                    self.add_error(name, translated(error.get("detail", "")))
        return found


# A password may have any character, the query may have a login of its own.
_LOGIN = re.compile(r"//.*@|\?.*")


def taken_apart(typed: Mapping[str, str]) -> dict[str, str]:
    """What was typed; an address like postgresql://user@host:5432/shop in the host's
    field is spread over the fields that it names. Of one that cannot be read the login
    goes: the field is shown again."""
    data = dict(typed.items())
    host = data.get("host", "").strip().removeprefix("jdbc:")
    if "://" not in host:
        return data
    without_login = {"host": _LOGIN.sub("//", host)}
    try:
        url = urlsplit(host)
        port = url.port
    except ValueError:
        return data | without_login
    if not url.hostname or "@" in url.path:
        return data | without_login
    found = {
        "host": url.hostname,
        "port": str(port) if port else None,
        "database": unquote(url.path.strip("/")),
        "username": unquote(url.username or ""),
        "password": unquote(url.password or ""),
    }
    return data | {name: value for name, value in found.items() if value}


def initial_of(kind: SourceKind, stored: Datasource | None) -> dict[str, Any]:
    """Values to show; the secret is not among them."""
    options = stored.options if stored else {}
    values: dict[str, Any] = {
        OPTION + option.name: _text_of(options.get(option.name, option.default))
        for option in kind.options
    }
    if stored is None:
        return values | {"port": kind.default_port, "tls": "off"}
    names = ("host", "port", "database", "username", "tls")
    return values | {name: getattr(stored, name) for name in names}


def _about_password(*, is_stored: bool, is_kept: bool) -> str:
    if is_kept:
        return str(IS_KEPT)
    if is_stored:
        return gettext("Stored. Leave it empty to keep it; it is never shown.")
    return gettext("Stored encrypted; never shown again.")


def label_of(option: Option) -> str:
    """In English; `include_databases` is "Include databases"."""
    return option.name.replace("_", " ").capitalize()


def _field_of(option: Option) -> forms.Field:
    label, meaning = gettext(label_of(option)), capfirst(gettext(option.meaning))
    if option.type == "integer":
        return forms.IntegerField(
            min_value=option.minimum,
            max_value=option.maximum,
            label=label,
            help_text=meaning,
        )
    return forms.CharField(
        required=False,
        label=label,
        help_text=gettext("%(meaning)s; one a line") % {"meaning": meaning},
        widget=forms.Textarea(attrs={"rows": 2}),
    )


def _value_of(option: Option, value: Any) -> Any:
    if option.type == "strings":
        return [line.strip() for line in str(value).splitlines() if line.strip()]
    return value


def _text_of(value: Any) -> Any:
    return "\n".join(value) if isinstance(value, list) else value
