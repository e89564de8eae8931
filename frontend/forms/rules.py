"""The form of a rule on rows or columns. What may be saved is the service's to say."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from catalog.access.rules import Stated
from catalog.access.table_rights import MaskKind, RuleKind
from frontend.forms.optional import OptionalForm
from frontend.forms.people import _names

ROW_FILTER = RuleKind.ROW_FILTER.value
MASKS = {
    MaskKind.REDACT: _("Mask: *** in place of text, else NULL"),
    MaskKind.HASH: _("Mask: a hash of text, equal for equal values"),
    MaskKind.PARTIAL: _("Mask: the last four characters of text"),
    MaskKind.NULL: _("Mask: NULL"),
    MaskKind.YEAR: _("Mask: the year of a date"),
    MaskKind.EXPRESSION: _("Mask: an SQL expression"),
}


class RuleForm(OptionalForm):
    needed = ("what", "on", "applies_to")
    what = forms.ChoiceField(
        label=_("Rule"),
        choices=[
            (ROW_FILTER, _("Row filter: only rows of which it is true")),
            *((kind.value, words) for kind, words in MASKS.items()),
        ],
    )
    on = forms.CharField(
        max_length=1_000,
        label=_("On"),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=_("lake.shop.orders; of a mask its column, lake.shop.orders.email"),
    )
    applies_to = forms.CharField(
        max_length=10_000,
        label=_("Applies to"),
        initial="everyone",
        help_text=_("everyone, or users and groups: user:ann, group:bi"),
    )
    excepted = forms.CharField(
        max_length=10_000,
        label=_("Except"),
        help_text=_("Users and groups whom it does not bind."),
    )
    expression = forms.CharField(
        max_length=4_000,
        label=_("SQL expression"),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=_(
            "Of a row filter, or of a mask by expression; over the table's columns:"
            " region = 'eu'"
        ),
    )

    @property
    def stated(self) -> Stated:
        given = self.cleaned_data
        is_filter = given["what"] == ROW_FILTER
        return Stated(
            kind=ROW_FILTER if is_filter else RuleKind.MASK.value,
            on=given["on"].strip(),
            applies_to=_names(given["applies_to"]),
            excepted=_names(given["excepted"]),
            mask=None if is_filter else given["what"],
            expression=given["expression"] or None,
        )
