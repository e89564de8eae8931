"""The form of a user's language and time zone."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from catalog.preferences import Chosen, zones


class PreferencesForm(forms.Form):
    language = forms.ChoiceField(required=False, label=_("Language"))
    timezone = forms.ChoiceField(required=False, label=_("Time zone"))

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
