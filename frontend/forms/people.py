"""Forms of users, grants and tokens. Rules are the services'; these shape input."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.existence import require_columns, what_is_missing
from catalog.access.grants import parse_securable
from catalog.access.invitations import DAYS, LONGEST_DAYS
from catalog.access.policy import Privilege, Role
from catalog.preferences import Chosen, zones
from core.errors import SluiceError
from core.translation import translated
from frontend.forms.optional import OptionalForm
from ingest.alerts.mail import check_address

MOST_NAMES = 500
IS_TO_COME = _("It does not exist yet")
PASSWORD = forms.PasswordInput(
    render_value=False, attrs={"autocomplete": "new-password"}
)
MEANINGS = {
    Privilege.DISCOVER: _("discover: see that it exists"),
    Privilege.SELECT: _("select: read rows"),
    Privilege.OPERATE: _("operate: test, sync, pause, cancel"),
    Privilege.MANAGE: _("manage: add tables, approve, remove"),
}
ROLE_MEANINGS = {
    Role.VIEWER: _("Viewer: discover"),
    Role.ANALYST: _("Analyst: discover, select"),
    Role.OPERATOR: _("Operator: discover, select, operate"),
    Role.EDITOR: _("Editor: all of them"),
}


class NewUserForm(OptionalForm):
    needed = ("name", "password")
    name = forms.CharField(max_length=150, label=_("User name"))
    password = forms.CharField(
        max_length=1000,
        strip=False,
        widget=PASSWORD,
        label=_("Password"),
        help_text=_("At least 10 characters, and no common password."),
    )
    groups = forms.CharField(
        label=_("Groups"),
        help_text=_("Separated by commas. New names create the group."),
    )
    is_admin = forms.BooleanField(label=_("Administrator"))

    def values(self) -> dict[str, Any]:
        return {**self.cleaned_data, "groups": _names(self.cleaned_data["groups"])}


class InvitationForm(OptionalForm):
    """`groups`: ticked ones that are there; `new_groups`: named ones."""

    needed = ("name", "days")
    name = forms.CharField(max_length=100, label=_("User name"))
    groups = forms.MultipleChoiceField(
        label=_("Groups"), widget=forms.CheckboxSelectMultiple
    )
    new_groups = forms.CharField(
        max_length=1_000,
        label=_("New groups"),
        help_text=_("Separated by commas. New names create the group."),
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=LONGEST_DAYS,
        initial=DAYS,
        label=_("Valid for … days"),
    )
    address = forms.EmailField(
        max_length=254,
        label=_("E-mail address"),
        help_text=_("The link is sent there. Empty: it is shown once, to copy."),
    )
    language = forms.ChoiceField(
        label=_("Language of the mail"), choices=settings.LANGUAGES
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Group.objects.order_by("name").values_list("name", flat=True)
        self.fields["groups"].choices = [(n, n) for n in names[:MOST_NAMES]]  # type: ignore[attr-defined]
        if settings.SLUICE_SMTP is None:
            del self.fields["address"], self.fields["language"]
        else:
            self.fields["language"].initial = get_language()

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"]
        if address:
            try:
                check_address(address)
            except SluiceError as refused:
                raise forms.ValidationError(translated(refused.as_sentence)) from None
        return address

    def values(self) -> dict[str, Any]:
        data = self.cleaned_data
        groups = [*data["groups"], *_names(data["new_groups"])]
        return {"name": data["name"], "groups": groups, "days": data["days"]}


class UserForm(OptionalForm):
    password = forms.CharField(
        max_length=1000,
        strip=False,
        widget=PASSWORD,
        label=_("New password"),
        help_text=_("Empty: it stays as it is."),
    )
    groups = forms.CharField(label=_("Groups"), help_text=_("Separated by commas."))
    is_admin = forms.BooleanField(label=_("Administrator"))
    is_active = forms.BooleanField(label=_("May log in"))
    keep_tokens = forms.BooleanField(
        label=_("Keep tokens, which else end with the old password"),
    )

    @staticmethod
    def initial_of(user: User) -> dict[str, Any]:
        return {
            "groups": ", ".join(sorted(g.name for g in user.groups.all())),
            "is_admin": user.is_superuser,
            "is_active": user.is_active,
        }

    def values(self) -> dict[str, Any]:
        """Only what was changed: the rest may be the directory's to say."""
        data = {name: self.cleaned_data[name] for name in self.changed_data}
        if "groups" in data:
            data["groups"] = tuple(_names(data["groups"]))
        return data


class PasswordForm(OptionalForm):
    needed = ("current", "new")
    current = forms.CharField(
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        label=_("Current password"),
    )
    new = forms.CharField(
        max_length=1000, strip=False, widget=PASSWORD, label=_("New password")
    )
    keep_tokens = forms.BooleanField(
        label=_("Keep tokens, which else end with the old password"),
    )


class GrantForm(OptionalForm):
    needed = ("principal", "privilege", "on")
    principal = forms.CharField(
        max_length=160,
        label=_("User or group"),
        widget=forms.TextInput(attrs={"list": "principals"}),
        help_text=_("user:ann or group:bi"),
    )
    privilege = forms.ChoiceField(
        label=_("Privilege or role"),
        choices=[
            (_("Privileges"), [(p.value, m) for p, m in MEANINGS.items()]),
            (_("Roles"), [(r.value, m) for r, m in ROLE_MEANINGS.items()]),
        ],
    )
    on = forms.CharField(
        max_length=600,
        label=_("On"),
        widget=forms.TextInput(
            attrs={
                "list": "securables",
                "autocomplete": "off",
                "hx-get": "/grants/names",
                "hx-trigger": "input changed delay:150ms, focus once",
                "hx-target": "#securables",
            }
        ),
        help_text=_("lake, lake.shop, lake.shop.orders, or a source"),
    )
    columns = forms.CharField(
        max_length=10_000,
        label=_("Columns"),
        help_text=_("Of select on one lake table: only these. Empty: all."),
    )
    is_to_come = forms.BooleanField(
        label=IS_TO_COME,
        help_text=_("The grant applies as soon as the object exists."),
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("on") and not data.get("is_to_come"):
            try:
                on = parse_securable(data["on"])
                missing = what_is_missing(on)
                if not missing:
                    require_columns(on, _names(data.get("columns", "")))
            except SluiceError as refused:
                if refused.code != "unknown_column":
                    self.add_error("on", translated(refused.as_sentence))
                    return data
                missing = refused.message
            if missing:
                tick = gettext("%(missing)s. Tick “%(box)s” if it will be.")
                told = {"missing": translated(missing), "box": IS_TO_COME}
                self.add_error("on", tick % told)
        return data

    @property
    def column_names(self) -> list[str]:
        return _names(self.cleaned_data["columns"])


class TokenForm(OptionalForm):
    needed = ("name",)
    name = forms.CharField(
        max_length=100, label=_("Name"), help_text=_("What it is for.")
    )
    expires_in_days = forms.IntegerField(
        min_value=1,
        max_value=3650,
        initial=90,
        label=_("Valid for … days"),
        help_text=_("Empty: it does not expire."),
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class PreferencesForm(OptionalForm):
    language = forms.ChoiceField(label=_("Language"))
    timezone = forms.ChoiceField(label=_("Time zone"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        browser = ("", _("As the browser says"))
        self.fields["language"].choices = [browser, *settings.LANGUAGES]  # type: ignore[attr-defined]
        self.fields["timezone"].choices = [  # type: ignore[attr-defined]
            browser,
            *((name, name.replace("_", " ")) for name in zones()),
        ]

    @property
    def chosen(self) -> Chosen:
        return Chosen(**self.cleaned_data)
