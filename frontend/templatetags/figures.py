"""Numbers, sizes and times as people read them, in their language and time zone.

The page names the zone once, at its foot; each time tells its UTC on hover.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_lazy

from catalog.discovery.facts import known_rows
from catalog.models import Table
from core.sentences import without_origins
from core.translation import translated
from ingest.contract.source_positions import place_of
from ingest.maintenance.descriptions import sized

register = template.Library()
DASH = "\N{EN DASH}"
NUMERIC = {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"}
UNITS = {
    "ms": gettext_lazy("ms"),
    "s": gettext_lazy("s"),
    "min": gettext_lazy("min"),
    "h": gettext_lazy("h"),
    "d": gettext_lazy("d"),
}


@register.filter
def figure(value: object) -> str:
    """1234567 → 1,234,567; a missing number is a dash, never 0."""
    if value is None or value == "":
        return DASH
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@register.filter
def breakable(name: str) -> SafeString:
    """A long name goes on in the next line behind a part of it, not within a word."""
    parts = re.split(r"(?<=[._])", name)
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts))


@register.filter
def rounded(value: object) -> str:
    """A rate to the whole, or with one digit below ten."""
    if not isinstance(value, float):
        return figure(value)
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


@register.filter
def rows_of(table: Table) -> str:
    """A table's estimated rows; "unknown" for one that its source never counted."""
    rows = known_rows(table)
    return gettext("unknown") if rows is None else figure(rows)


@register.filter
def sql_cell(value: object) -> SafeString | str:
    """A cell of a result: a value as SQL writes it, or the mark of NULL."""
    if value is None:
        return mark_safe('<span class="is-null">NULL</span>')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


@register.filter
def is_numeric(kind: str) -> bool:
    """Whether values of this type of a result are numbers."""
    return kind.partition("(")[0] in NUMERIC


@register.filter
def typed(
    row: Sequence[object], columns: Sequence[Mapping[str, str]]
) -> list[tuple[object, bool]]:
    """The values of a row of a result, and of each whether it is a number."""
    kinds = [is_numeric(column["type"]) for column in columns]
    return list(zip(row, kinds, strict=True))


@register.filter
def size(value: object) -> str:
    """Bytes as 12.3 GB."""
    return sized(value) if isinstance(value, int | float) else DASH


@register.filter
def without_sign(value: object) -> object:
    return abs(value) if isinstance(value, int | float) else value


@register.filter
def duration(seconds: object) -> str:
    """Seconds as 40 ms, 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 4 d 3 h."""
    if not isinstance(seconds, int | float):
        return DASH
    whole = int(seconds)
    if 0 <= seconds < 0.1:
        return _part(max(1, round(seconds * 1000)), "ms")
    if seconds < 10 and isinstance(seconds, float):
        return _part(f"{max(seconds, 0):.1f}", "s")
    if whole < 60:
        return _part(whole, "s")
    if whole < 3600:
        return _pair(whole, 60, "min", "s")
    if whole < 86400:
        return _pair(whole // 60, 60, "h", "min")
    return _pair(whole // 3600, 24, "d", "h")


def _pair(value: int, base: int, big: str, small: str) -> str:
    rest = value % base
    return _part(value // base, big) + (f" {_part(rest, small)}" if rest else "")


def _part(number: object, unit: str) -> str:
    return f"{number} {UNITS[unit]}"


@register.filter
def parsed(value: object) -> datetime | None:
    """An instant from a datetime or ISO text; None when it is neither."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and value:
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


@register.filter
def ago(value: object) -> SafeString | str:
    """A <time> that reads "3 min ago"."""
    at = parsed(value)
    if at is None:
        return DASH
    seconds = (timezone.now() - at).total_seconds()
    if abs(seconds) < 2:
        text = gettext("just now")
    elif seconds < 0:
        text = gettext("in %(time)s") % {"time": _nearest(-seconds)}
    else:
        text = gettext("%(time)s ago") % {"time": _rough(seconds)}
    return _time(at, text)


@register.filter
def due(value: object) -> SafeString | str:
    """A <time> that reads "in 3 min", or that it is due when that moment has come."""
    at = parsed(value)
    if at is not None and at <= timezone.now():
        return _time(at, gettext("due, waiting"))
    return ago(value)


def _rough(seconds: float) -> str:
    whole = int(seconds)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= length:
            return _part(whole // length, unit)
    return _part(whole, "s")


def _nearest(seconds: float) -> str:
    """What is a little less than 7 days away is 7 days away."""
    for length, smaller in ((86400, 3600), (3600, 60), (60, 1)):
        if round(seconds / smaller) * smaller >= length:
            return _rough(round(seconds / length) * length)
    return _rough(round(seconds))


@register.filter
def clock(value: object) -> SafeString | str:
    """A <time> as 14:03:22 in the reader's zone."""
    return _local(value, "%H:%M:%S")


@register.filter
def span(position: Mapping[str, str]) -> str:
    """From where to where a sync went: times as 14:03:22 → 14:03:52, other positions
    by their ends."""
    ends = [_short(str(position.get(end) or "")) for end in ("from", "to")]
    return " → ".join(filter(None, ends))


def _short(position: str) -> str:
    try:
        at = datetime.fromisoformat(position)
    except ValueError:
        position = place_of(position)
        return position if len(position) <= 20 else f"…{position[-19:]}"
    return f"{timezone.localtime(at) if at.tzinfo else at:%H:%M:%S}"


@register.filter
def instant(value: object) -> SafeString | str:
    """A <time> as 2026-08-22 14:03:22 in the reader's zone."""
    return _local(value, "%Y-%m-%d %H:%M:%S")


def _local(value: object, form: str) -> SafeString | str:
    at = parsed(value)
    return DASH if at is None else _time(at, f"{timezone.localtime(at):{form}}")


def _time(at: datetime, text: str) -> SafeString:
    exact = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        exact.isoformat(),
        f"{exact:%Y-%m-%d %H:%M:%S} UTC",
        text,
    )


@register.filter
def seconds_until(start: object, end: object) -> float | None:
    """Seconds from `start` to `end` (or to now when it has not ended)."""
    first, last = parsed(start), parsed(end)
    if first is None:
        return None
    return ((last or timezone.now()) - first).total_seconds()


@register.filter
def percent(done: object, total: object) -> str:
    if not isinstance(done, int) or not isinstance(total, int) or not total:
        return ""
    return f"{min(100, 100 * done // total)} %"


register.filter("translated", translated)


@register.filter
def sentence(text: str) -> str:
    """In the reader's language, with a capital unless it begins with the name of a
    table or column."""
    text = translated(text)
    first = text.partition(" ")[0].rstrip(",:;")
    return text if not first.isalpha() else text[:1].upper() + text[1:]


@register.filter
def pretty(value: object) -> str:
    """JSON for people, names in their own letters."""
    if isinstance(value, Mapping):
        value = without_origins(value)
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def of(found: Mapping[object, object], key: object) -> object:
    """What a page looked up for all its rows, of one of them; "" = nothing."""
    return found.get(key, "")


@register.filter
def joined(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else ""


@register.filter
def sql_name(name: str) -> str:
    """A lake table as SQL calls it; only grants, which name sources too, say `lake.`"""
    return name.removeprefix("lake.")
