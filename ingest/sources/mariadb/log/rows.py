"""Rows of the binary log taken apart: functions written out for a table's columns.

Whole numbers come as such, texts and blobs as their bytes, all else as the bytes that
the log has (`ingest.sources.mariadb.log.values` reads those). Only numbers go into the
text of a function. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.sentences import Sentence
from ingest.sources.mariadb.log import table_map as kinds
from ingest.sources.mariadb.log.decimals import decimal_bytes, decimal_groups
from ingest.sources.mariadb.log.table_map import LogColumn

Value = int | bytes | None
Row = tuple[Value, ...]
_INTEGERS = {
    kinds.TINY: "b",
    kinds.SHORT: "h",
    kinds.LONG: "i",
    kinds.LONGLONG: "q",
}
_FIXED = {
    kinds.YEAR: "B",
    kinds.INT24: "3s",
    kinds.FLOAT: "4s",
    kinds.DOUBLE: "8s",
    kinds.DATE: "3s",
}
# The log does not say how many digits of a second's fraction they have.
_OLD = frozenset({kinds.OLD_TIMESTAMP, kinds.OLD_TIME, kinds.OLD_DATETIME})
_SECONDS = {kinds.TIME: 3, kinds.TIMESTAMP: 4, kinds.DATETIME: 5}
_TEXTS = frozenset(
    {kinds.VARCHAR, kinds.VAR_STRING, kinds.STRING, kinds.COMPRESSED_VARCHAR}
)
_BLOBS = frozenset(
    {kinds.BLOB, kinds.COMPRESSED_BLOB, kinds.GEOMETRY, kinds.JSON, kinds.VECTOR}
)


@dataclass(frozen=True, slots=True)
class Form:
    """How a column lies in a row: fixed as a format of `struct`, else a length of so
    many bytes and then the value."""

    fixed: str = ""
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """Functions that take rows apart from a place on, up to an end; they return where
    they stopped.

    rows(data, at, end, add)           each row is added
    updates(data, at, end, ops, rows)  old and new rows; see `_UPDATES`
    """

    rows: Callable[[bytes, int, int, Callable[[Row], None]], int]
    updates: Callable[[bytes, int, int, list[int], list[Row]], int]


def form_of(column: LogColumn) -> Form:
    """ValueError when the log's type is not known."""
    kind = column.type
    if letter := _INTEGERS.get(kind):
        return Form(letter.upper() if column.is_unsigned else letter)
    if fixed := _FIXED.get(kind):
        return Form(fixed)
    if seconds := _SECONDS.get(kind):
        return Form(f"{seconds + (column.digits + 1) // 2}s")
    if kind == kinds.DECIMAL:
        groups = decimal_groups(column.length, column.scale)
        return Form(f"{decimal_bytes(groups)}s")
    if kind == kinds.BIT:
        return Form(f"{(column.length + 7) // 8}s")
    if kind == kinds.ENUM:
        return Form("B" if column.length == 1 else "H")
    if kind == kinds.SET:
        return Form(f"{column.length}s")
    if kind in _TEXTS:
        return Form(prefix=1 if column.length < 256 else 2)
    if kind in _BLOBS:
        return Form(prefix=column.length)
    if kind in _OLD:
        raise ValueError(
            Sentence(
                "column %(column)s has the form that times had before version 5.6 of"
                " MySQL, which ALTER TABLE ... FORCE changes",
                column=column.name,
            )
        )
    raise ValueError(
        Sentence(
            "column %(column)s has the type %(type)s, which is not known",
            column=column.name,
            type=kind,
        )
    )


def split_of(columns: Sequence[LogColumn], key: Sequence[int]) -> Split:
    """key: places of the columns by which an update moves its row."""
    forms = tuple(form_of(column) for column in columns)
    nullable = tuple(column.is_nullable for column in columns)
    return _split(forms, nullable, tuple(key))


# What `updates` adds, as `ingest.contract.segments` has it: an update (1), or the
# delete of the old row (2) and then the moved one (3).
_UPDATES = """\
  if {moved}:
   rows(b, s, s + 1, old.append)
   ops += (2, 3)
   add(old.pop())
  else:
   ops.append(1)
  add(({values}))
"""


@lru_cache(1_000)
def _split(
    forms: tuple[Form, ...], nullable: tuple[bool, ...], key: tuple[int, ...]
) -> Split:
    made = _Writer(forms, nullable)
    everything = range(len(forms))
    values = "".join(f"v{n}, " for n in everything)
    moved = " or ".join(f"o{n} != v{n}" for n in key) or "0"
    text = [
        "def rows(b, p, e, add):",
        " while p < e:",
        *made.row("v", everything),
        f"  add(({values}))",
        " return p",
        "def updates(b, p, e, ops, values):",
        " add, old = values.append, []",
        " while p < e:",
        "  s = p",
        *made.row("o", key),
        *made.row("v", everything),
        _UPDATES.format(moved=moved, values=values),
        " return p",
    ]
    exec("\n".join(text), made.names)
    return Split(made.names["rows"], made.names["updates"])


class _Writer:
    """Lines of a function. names: what they need."""

    def __init__(self, forms: Sequence[Form], nullable: Sequence[bool]) -> None:
        self._forms = forms
        self._nullable = nullable
        self.names: dict[str, Any] = {"N": int.from_bytes}

    def row(self, name: str, wanted: Iterable[int]) -> list[str]:
        """Of one row at p, two spaces deep: the wanted values by that name and their
        place."""
        count = len(self._forms)
        width = (count + 7) // 8
        # what is behind the last column is set
        bits = f"b[p] & {(1 << count) - 1}"
        if width > 1:
            bits = f"N(b[p:p + {width}], 'little') & {(1 << count) - 1}"
        taken = frozenset(wanted)
        lines = [f"  n = {bits}", f"  p += {width}", "  if n:"]
        run: list[int] = []
        for n in range(count):
            if not self._nullable[n]:
                run.append(n)
                continue
            lines += self._run(run, name, taken, "   ")
            run = []
            lines.append(f"   if n & {1 << n}: {name}{n} = None")
            lines.append("   else:")
            lines += self._run([n], name, taken, "    ")
        lines += self._run(run, name, taken, "   ")
        lines.append("  else:")
        lines += self._run(range(count), name, taken, "   ")
        return [*lines, *(["   pass"] if lines[-1] == "  else:" else [])]

    def _run(
        self, places: Sequence[int], name: str, taken: frozenset[int], deep: str
    ) -> list[str]:
        """Columns that are all there; those of a fixed width come at once."""
        lines: list[str] = []
        format, targets, size = "", list[str](), 0
        for n in places:
            form = self._forms[n]
            if form.fixed:
                width = struct.calcsize(f"<{form.fixed}")
                size += width
                format += form.fixed if n in taken else f"{width}x"
                targets += [f"{name}{n}"] if n in taken else []
                continue
            format += {1: "B", 2: "H", 3: "HB", 4: "I"}[form.prefix]
            targets += ["l", "h"] if form.prefix == 3 else ["l"]
            lines.append(self._unpack(format, targets, deep, size + form.prefix))
            if form.prefix == 3:
                lines.append(f"{deep}l |= h << 16")
            if n in taken:
                lines.append(f"{deep}{name}{n} = b[p:(p := p + l)]")
            else:
                lines.append(f"{deep}p += l")
            format, targets, size = "", [], 0
        if targets:
            lines.append(self._unpack(format, targets, deep, size))
        elif size:
            lines.append(f"{deep}p += {size}")
        return lines

    def _unpack(self, format: str, targets: Sequence[str], deep: str, size: int) -> str:
        unpack = "U" + "".join(c for c in format if c.isalnum())
        self.names[unpack] = struct.Struct(f"<{format}").unpack_from
        return f"{deep}{', '.join(targets)}, = {unpack}(b, p); p += {size}"
