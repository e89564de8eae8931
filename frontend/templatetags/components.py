"""What repeats on pages: tables, cards, callouts, facts, fields, small forms.

A component of one line is written here; one with markup of its own is a template in
`parts/`. What a page writes between a block's tags is its content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import template
from django.forms import BoundField, Form
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.enforcement import decision_for
from catalog.access.policy import Principal, Privilege
from catalog.models import Table
from catalog.selectors.tables import securable_of

register = template.Library()

PLAIN_HEAD = '<th scope="col">{}</th>'
NUMBER_HEAD = '<th scope="col" class="is-number">{}</th>'
UNSEEN_HEAD = '<th scope="col"><span class="visually-hidden">{}</span></th>'
CALLOUT_ICONS = {"ok": "check", "warn": "warn", "bad": "warn"}


def _part(name: str, /, **values: object) -> SafeString:
    return render_to_string(f"frontend/parts/{name}.html", values)


# ---------------------------------------------------------------- surfaces
@register.simple_tag
def cardhead(id: str, title: str, note: str = "") -> SafeString:
    """The head of a card: its title, and a word about it at the right."""
    return _part("card_head", id=id, title=title, note=note)


@register.simple_block_tag
def callout(
    content: str, tone: str = "", icon: str = "", id: str = "", role: str = ""
) -> SafeString:
    """A message that stands out. tone: ok, warn, bad or none."""
    icon = icon or CALLOUT_ICONS.get(tone, "info")
    return _part("callout", content=content, tone=tone, icon=icon, id=id, role=role)


@register.simple_block_tag
def emptystate(
    content: str, icon: str = "", title: str = "", style: str = ""
) -> SafeString:
    """What a list or card shows while it has nothing: why, and what to do next."""
    return _part("empty_state", content=content, icon=icon, title=title, style=style)


@register.simple_block_tag
def numberbox(content: str, title: str, url: str = "", note: str = "") -> SafeString:
    """One of the large numbers of a page, with a word below; linked where it has a
    url, else a group of a <dl>."""
    name = "number_link" if url else "number"
    return _part(name, content=content, title=title, url=url, note=note)


@register.simple_block_tag
def fact(content: str, title: str, style: str = "") -> SafeString:
    """A term of a <dl class="facts"> and what it is."""
    return _part("fact", content=mark_safe(content.strip()), title=title, style=style)


# ---------------------------------------------------------------- tables
@register.simple_block_tag
def grid(
    content: str, caption: str, style: str = "is-list", scroll: str = ""
) -> SafeString:
    """A table that scrolls sideways. `is-list`: cards on a narrow screen."""
    return _part("grid", content=content, caption=caption, style=style, scroll=scroll)


@register.simple_tag
def columns(*titles: str) -> SafeString:
    """The heads of columns, in their order."""
    return _heads(PLAIN_HEAD, titles)


@register.simple_tag
def number_columns(*titles: str) -> SafeString:
    """The heads of columns of numbers, which are set flush right."""
    return _heads(NUMBER_HEAD, titles)


@register.simple_tag
def unseen_column(word: str) -> SafeString:
    """The head of a column of buttons, for screen readers."""
    return _heads(UNSEEN_HEAD, [word])


def _heads(form: str, titles: Sequence[str]) -> SafeString:
    return format_html_join("\n", form, [(title,) for title in titles])


# ---------------------------------------------------------------- fields
@register.inclusion_tag("frontend/parts/field.html")
def field(bound: BoundField) -> dict[str, object]:
    """A field of a form: label, input, help and errors."""
    return {"field": bound}


@register.inclusion_tag("frontend/parts/choice.html")
def choice(bound: BoundField, label: str = "") -> dict[str, object]:
    """A checkbox with its label beside it."""
    return {"field": bound, "label": label or bound.label}


@register.inclusion_tag("frontend/parts/choices.html")
def choices(bound: BoundField, legend: str) -> dict[str, object]:
    """A field of many checkboxes."""
    return {"field": bound, "legend": legend}


@register.inclusion_tag("frontend/parts/pick_one.html")
def radio(name: str, value: str, chosen: object, label: str) -> dict[str, object]:
    """One of several values of `name`; `chosen` is the one that holds."""
    is_chosen = (chosen or "") == value
    return {"name": name, "value": value, "is_chosen": is_chosen, "label": label}


@register.simple_block_tag
def filterform(
    content: str, label: str, view: str, shown: str, **more: Any
) -> SafeString:
    """The choices by which a list is filtered in its place. shown: the list's id.

    more: `is_whole`: the view answers with the page, of which only the list is taken,
    and `also`, the id of another part; `typed`, the id of the search box that filters
    while one types.
    """
    url = reverse(f"frontend:{view}")
    return _part(
        "filter_form", content=content, label=label, url=url, shown=shown, **more
    )


@register.inclusion_tag("frontend/parts/search_box.html")
def searchbox(
    id: str, value: str, label: str, placeholder: str, name: str = "q"
) -> dict[str, object]:
    """A text by which a list is filtered; its label is for screen readers."""
    return {
        "id": id,
        "value": value,
        "label": label,
        "placeholder": placeholder,
        "name": name,
    }


@register.simple_block_tag
def selectbox(content: str, id: str, name: str, label: str) -> SafeString:
    """A choice by which a list is filtered as soon as it is made."""
    return _part("select_box", content=content, id=id, name=name, label=label)


@register.simple_tag(takes_context=True)
def labelled(context: template.Context, pointer: str) -> str:
    """What a page calls the member of a request that `pointer` means: as its form does,
    where it has one."""
    name, form = pointer.rpartition("/")[2], context.get("form")
    fields = form.fields if isinstance(form, Form) else {}
    if name in fields:
        return str(fields[name].label)
    return gettext(name.replace("_", " ").capitalize())


@register.simple_tag
def option(value: str, word: str, chosen: object = None) -> SafeString:
    """An <option>, selected when it is the chosen one."""
    selected = " selected" if chosen == value else ""
    return format_html('<option value="{}"{}>{}</option>', value, selected, word)


# ---------------------------------------------------------------- doing
@register.simple_block_tag(takes_context=True)
def postbutton(
    context: template.Context,
    content: str,
    url: str,
    style: str = "",
    **more: Any,
) -> SafeString:
    """A button that is a form of its own.

    more: `id` and `label` (for screen readers) of the button, `next` = where to go
    afterwards, `ask` = what is to be pressed once more before it acts.
    """
    token = context.get("csrf_token")
    return _part(
        "ask_button" if more.get("ask") else "post_button",
        content=mark_safe(content.strip()),
        url=url,
        style=style,
        csrf_token=token,
        **more,
    )


# ---------------------------------------------------------------- where a page is
@register.simple_tag
def crumb(word: str, view: str, *args: object) -> SafeString:
    """A page above this one."""
    url = reverse(f"frontend:{view}", args=args)
    return format_html('<li><a href="{}">{}</a></li>', url, word)


@register.inclusion_tag("frontend/parts/tab.html")
def tab(url: str, icon: str, word: str, here: str, name: str = "") -> dict[str, object]:
    """One of the pages of a table or source; `here` names the one that is shown."""
    return {"url": url, "icon": icon, "word": word, "is_here": here == name}


# A table's tabs: the rest of the name of its address, icon, word.
TABLE_TABS = {
    "": ("table", _("Overview")),
    "data": ("sql", _("Data")),
    "columns": ("menu", _("Columns")),
    "activity": ("job", _("Activity")),
    "health": ("chart", _("Health")),
    "access": ("key", _("Access")),
    "connect": ("plug", _("Connect")),
    "policy": ("refresh", _("Settings")),
}


@register.inclusion_tag("frontend/tables/tabs.html", takes_context=True)
def tabletabs(context: template.Context, table: Table, here: str) -> dict[str, object]:
    """Those that this person may open."""
    principal: Principal = context["request"].principal
    manages = decision_for(principal, Privilege.MANAGE, securable_of(table)).allowed
    tabs = [
        (
            reverse(f"frontend:table{name and '-'}{name}", args=[table.pk]),
            icon,
            word,
            name == here,
        )
        for name, (icon, word) in TABLE_TABS.items()
        if manages or name != "policy"
    ]
    return {"table": table, "tabs": tabs}


@register.simple_tag
def tabword(name: str) -> str:
    return str(TABLE_TABS[name][1])
