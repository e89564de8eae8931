"""Keyset paging: stable under inserts, as cheap on page 1,000 as on page 1.

A page token is signed and bound to its list and order, opaque to callers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core import signing
from django.db.models import Q, QuerySet

from core.errors import InvalidRequest

DEFAULT_SIZE = 100
LARGEST_SIZE = 1_000
_SALT = "sluice.page"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """One page. `next_page_token` None = this was the last."""

    items: list[R]
    next_page_token: str | None


@dataclass(frozen=True, slots=True)
class Window(Generic[R]):
    """A page with the way on and back; None where the list ends."""

    items: list[R]
    before: str | None
    after: str | None


def keyset_window(
    rows: QuerySet[Any],
    *,
    order: tuple[str, ...],
    size: int,
    after: str,
    before: str,
    load: Callable[[list[Any]], list[Any]] | None,
) -> Window[Any]:
    """The page after or before a token, or the first; else like `keyset_page`."""
    backwards = tuple(f"-{name}" for name in order)
    if before:
        page = keyset_page(rows, order=backwards, size=size, token=before, load=load)
        items = page.items[::-1]
        following = _token_at(items[-1], rows, order) if items else None
        return Window(items, before=page.next_page_token, after=following)
    page = keyset_page(rows, order=order, size=size, token=after or None, load=load)
    is_first = not after or not page.items
    back = None if is_first else _token_at(page.items[0], rows, backwards)
    return Window(page.items, before=back, after=page.next_page_token)


def keyset_page(
    rows: QuerySet[Any],
    *,
    order: Sequence[str],
    size: int,
    token: str | None = None,
    load: Callable[[list[Any]], list[Any]] | None = None,
) -> Page[Any]:
    """The page after `token` in `order`, in one statement.

    order: field names, all with or all without "-", the last one unique; NULLs
    are not allowed in them. InvalidRequest for a token of another list or order.
    load: reads what to show for these primary keys, in their order, with the fields of
    the order; then the page itself reads keys alone, and takes two statements.
    """
    is_descending = order[0].startswith("-")
    fields = [name.removeprefix("-") for name in order]
    if token:
        after = _opened(token, _scope(rows, order))
        rows = rows.filter(_beyond(fields, after, is_descending=is_descending))
    if load:
        keys = rows.order_by(*order).values_list("pk", flat=True)[: size + 1]
        ids = list(keys)
        found, is_last = load(ids[:size]), len(ids) <= size
    else:
        found = list(rows.order_by(*order)[: size + 1])
        is_last = len(found) <= size
    if is_last or not found:
        return Page(items=found, next_page_token=None)
    shown = found[:size]
    return Page(items=shown, next_page_token=_token_at(shown[-1], rows, order))


def _scope(rows: QuerySet[Any], order: Sequence[str]) -> str:
    return f"{rows.model._meta.label}:{','.join(order)}"


def _token_at(row: object, rows: QuerySet[Any], order: Sequence[str]) -> str:
    """Goes on behind this row."""
    key = [_plain(_value(row, name.removeprefix("-"))) for name in order]
    return key_token(key, _scope(rows, order))


def offset_of(token: str | None, scope: str) -> int:
    """Where a list that has no keys goes on; 0 without a token."""
    return int(_opened(token, scope)[0]) if token else 0


def offset_token(offset: int, scope: str) -> str:
    return key_token([offset], scope)


def key_of(token: str | None, scope: str) -> list[Any]:
    """The key after which a list from elsewhere goes on; [] without a token."""
    return _opened(token, scope) if token else []


def key_token(key: list[Any], scope: str) -> str:
    return signing.dumps([scope, key], salt=_SALT)


def _beyond(fields: list[str], after: list[Any], *, is_descending: bool) -> Q:
    """(a, b) > (x, y) spelled out: a > x, or a = x and b > y; and a >= x.

    The last says nothing new, but only by it an index finds where to start.
    """
    sign = "lt" if is_descending else "gt"
    result = Q()
    for index, name in enumerate(fields):
        same = dict(zip(fields[:index], after[:index], strict=True))
        result |= Q(**same, **{f"{name}__{sign}": after[index]})
    return result & Q(**{f"{fields[0]}__{sign}e": after[0]})


def _opened(token: str, scope: str) -> list[Any]:
    try:
        found_scope, values = signing.loads(token, salt=_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        found_scope, values = "", []
    if found_scope != scope:
        raise InvalidRequest(
            "the page token is not of this list",
            code="bad_page_token",
            hint="repeat the request without page_token, with the same sort",
        )
    return list(values)


def _value(row: object, path: str) -> Any:
    value: Any = row
    for name in path.split("__"):
        value = getattr(value, name)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, int | str) else str(value)
