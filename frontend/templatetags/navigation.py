"""Links of the shell and of paged lists; they keep the other query parameters."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.loader_tags import BLOCK_CONTEXT_KEY
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from catalog.selectors.paging import Window
from frontend.pages import NumberedPage
from frontend.places import Place, Section, sections_for

register = template.Library()

# Pages that belong under an entry of the side navigation without its prefix.
ALSO = {"onboarding": "sources", "onboard": "sources", "source": "sources",
        "table": "tables", "job": "jobs", "alert": "alerts",
        "invitations": "users"}  # fmt: skip


@register.inclusion_tag("frontend/parts/entry.html", takes_context=True)
def entry(context: dict[str, Any], place: Place) -> dict[str, Any]:
    """One line of the side navigation, marked when the page lies below it."""
    match = context["request"].resolver_match
    here = match.url_name if match else ""
    section = (here or "").split("-")[0]
    is_current = place.name in (section, ALSO.get(section))
    return {
        "url": reverse(f"frontend:{place.name}"),
        "name": place.name,
        "icon": place.icon,
        "word": place.word,
        "is_current": is_current,
        "badge": reverse(f"frontend:{place.badge}") if place.badge else "",
    }


@register.simple_tag(takes_context=True)
def sections(context: dict[str, Any]) -> list[Section]:
    """What the side navigation shows to this person."""
    return sections_for(is_admin=context["request"].user.is_superuser)


@register.simple_tag(takes_context=True)
def page_title(context: template.Context) -> str:
    """What the page's `title` block says, once more: most pages are headed by it."""
    blocks = context.render_context[BLOCK_CONTEXT_KEY]
    title: str = blocks.get_block("title").render(context)
    return title


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: object) -> str:
    """This page's query string with some parameters changed; "" removes one."""
    parameters = context["request"].GET.copy()
    for name, value in changes.items():
        parameters.pop(name, None)
        if value not in ("", None):
            parameters[name] = str(value)
    encoded: str = parameters.urlencode()
    return f"?{encoded}" if encoded else "?"


@register.simple_tag(takes_context=True)
def sorted_column(
    context: dict[str, Any], word: str, by: str, chosen: str, style: str = ""
) -> SafeString:
    """The head of a column that sorts the list by it."""
    url = query(context, sort=by, page="", after="", before="")
    direction = "descending" if by.startswith("-") or by == "lag" else "ascending"
    here = format_html(' aria-sort="{}"', direction) if by == chosen else ""
    return format_html(
        '<th scope="col" class="{}"{}><a href="{}">{}</a></th>', style, here, url, word
    )


@register.inclusion_tag("frontend/parts/pager.html", takes_context=True)
def pager(
    context: dict[str, Any],
    listed: NumberedPage | Window[Any],
    of: str,
    target: str = "",
) -> dict[str, object]:
    """Previous and next of a page of a list; nothing when it is the only one.

    target: what htmx replaces with the other page; without it a link goes there.
    """
    shown, before, after = "", "", ""
    if isinstance(listed, Window):
        if listed.before:
            before = query(context, before=listed.before, after="", page="")
        if listed.after:
            after = query(context, after=listed.after, before="", page="")
    else:
        shown = f"{listed.first}–{listed.last}" if listed.items else ""  # noqa: RUF001
        if listed.number > 1:
            before = query(context, page=listed.number - 1)
        if listed.has_next:
            after = query(context, page=listed.number + 1)
    return {
        "of": of,
        "shown": shown,
        "before": before,
        "after": after,
        "target": target,
    }
