"""`{% script_words %}`: the sentences that scripts show, in the page's language."""

from __future__ import annotations

from django import template
from django.utils.html import json_script
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

register = template.Library()

WORDS = {
    "dark": _("dark colours"),
    "light": _("light colours"),
    "copied": _("Copied"),
    "selected": _("Selected"),
    "rows_copied": _("Copied the rows"),
    "query_saved": _("Saved as %(name)s"),
    "parameter_missing": _("Give a value for %(name)s"),
    "chart_of": _("%(kind)s of %(y)s by %(x)s"),
    "chart_none": _("Nothing to draw: a chart needs a column of numbers"),
    "chart_rest": _("all others"),
    "chart_bar": _("Bars"),
    "chart_line": _("Lines"),
    "chart_area": _("Areas"),
    "chart_scatter": _("Points"),
    "chart_pie": _("Shares"),
    "cell_copied": _("Copied the cell"),
    "cell_selected": _("Selected the cell"),
    "editor": _("SQL statement; Escape leaves the editor"),
    "completions": _("Completions"),
    "control_character": _("Control character"),
    "selection_deleted": _("Selection deleted"),
    "query": _("Query %(number)s"),
    "close": _("Close %(name)s"),
    "new_tab": _("New tab"),
    "picked_all": _(": all %(number)s not synced yet"),
    "picked_of": _(": all %(number)s of %(what)s"),
    "picked_but": _(", except %(number)s"),
    "picked_more": _(", and %(number)s more"),
    "found": _("%(number)s tables"),
    "found_free": _(", %(number)s not synced"),
    "found_cannot": _(", %(number)s cannot be synced"),
    "select_all": _("Select all %(number)s"),
    "cannot": _("cannot be synced: %(reason)s"),
    "rows": _("%(number)s rows"),
    "synced_as": _("synced as %(name)s"),
    "remedy": _("%(why)s. To change that, %(remedy)s"),
    "no_match": _("No table matches. A star stands for any text: order*"),
}


@register.simple_tag
def script_words() -> SafeString:
    return json_script({key: str(text) for key, text in WORDS.items()}, "script-words")
