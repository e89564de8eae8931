"""The form of an alert target. Rules are the service's; this shapes input."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from frontend.reading.alerts import TITLES
from ingest.alerts.rules import KINDS
from ingest.alerts.targets import SHORTEST_SECRET, NewTarget


class TargetForm(forms.Form):
    name = forms.CharField(
        max_length=100,
        label=_("Name"),
        help_text=_("Shown in the list of targets."),
    )
    kind = forms.ChoiceField(
        label=_("Kind"), choices=[("webhook", "webhook"), ("email", _("e-mail"))]
    )
    address = forms.CharField(
        max_length=254,
        required=False,
        label=_("E-mail address"),
        help_text=_("For e-mail."),
    )
    url = forms.CharField(
        max_length=1000,
        required=False,
        label=_("URL"),
        help_text=_("For a webhook: https://host/path"),
    )
    secret = forms.CharField(
        max_length=1000,
        required=False,
        strip=False,
        label=_("Secret"),
        widget=forms.PasswordInput(
            render_value=False, attrs={"autocomplete": "new-password"}
        ),
        help_text=format_lazy(
            _(
                "For a webhook: signs each message, {least} characters or more. It is "
                "never shown again."
            ),
            least=SHORTEST_SECRET,
        ),
    )
    on = forms.CharField(
        max_length=600,
        required=False,
        label=_("Only on"),
        help_text=_("lake.shop or lake.shop.orders. Empty: the whole lake."),
    )
    kinds = forms.MultipleChoiceField(
        required=False,
        label=_("Kinds"),
        choices=[(kind, TITLES[kind]) for kind in KINDS],
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    def new_target(self) -> NewTarget:
        return NewTarget(**self.cleaned_data)
