"""What a dialect has to say about SQL. Values and protocols only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from core.errors import InvalidRequest
from ingest.contract.table import ColumnSpec


@dataclass(frozen=True, slots=True)
class Read:
    """A column in the form the lake can hold.

    fits  SQL condition that is false exactly for values without such a form, which
          then read as NULL; "" = every value has one
    """

    expression: str
    fits: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """How a column is compared with a constant so that the source means what Spark
    does.

    pairs       (the column's side, the constant's with `?` for its text); all must be
                equal; () = it may mean something else
    is_ordered  by `<` and `>`, too; then there is one pair
    """

    pairs: tuple[tuple[str, str], ...] = ()
    is_ordered: bool = False


class Dialect(Protocol):
    """SQL text for one kind of source. Types are the source's own words.

    Dates travel as days and timestamps as microseconds since 1970-01-01 UTC, in the
    proleptic Gregorian calendar, because Java's own dates have no 5th to 14th of
    October 1582.
    """

    def name(self, text: str) -> str:
        """A quoted identifier."""
        ...

    def literal(self, text: str) -> str:
        """A string literal, whatever the server's settings about escapes."""
        ...

    def qualified(self, schema: str, table: str) -> str: ...

    def read(self, column: ColumnSpec) -> Read: ...

    def compared(self, column: ColumnSpec) -> Compared:
        """Only of values that fit (`Read.fits`). The texts of constants are Java's for
        numbers, `2024-02-29` and `2024-02-29 13:00:00.000000`, in UTC where it has a
        zone."""
        ...

    def mask(self, flags: Sequence[tuple[str, int]]) -> str:
        """A 64-bit integer with every flag whose condition is false."""
        ...

    def shown(self, expression: str) -> str:
        """Any value as text for a message; it need not come back."""
        ...

    def key_text(self, expression: str, type: str) -> str:
        """A key's value as text that `key_value` takes back without loss."""
        ...

    def key_value(self, text: str, type: str) -> str:
        """A constant that compares with a column of this type by its index."""
        ...

    def comes_back(self, expression: str, type: str) -> str:
        """SQL condition that is true for keys whose text in Unicode is that of no other
        key, `type` as `key_text` takes it; "" = it is true for all."""
        ...

    def beyond(self, columns: Sequence[str], values: Sequence[str]) -> str:
        """Rows whose key is greater than `values`, by an index over `columns`."""
        ...

    def up_to(self, columns: Sequence[str], values: Sequence[str]) -> str:
        """Rows whose key is not greater than `values`."""
        ...

    def is_integer(self, type: str) -> bool:
        """Whether keys of this type can be stepped through evenly."""
        ...

    def moment(self, text: str, *, has_zone: bool) -> str:
        """A constant for comparison with a cursor; `text` as in `positions`."""
        ...

    def below_all(self, column: ColumnSpec, *, position: str) -> str:
        """Rows whose value of this cursor is below every position, or is in no
        calendar and is at or below this one, as far as an index on the cursor
        finds them. `position` as in `positions`, "" = none yet."""
        ...

    def fraction_digits(self, type: str) -> int:
        """Digits of a second that a timestamp of this type keeps, 0 to 6."""
        ...


def refuse_nul(text: str) -> None:
    if "\0" in text:
        raise InvalidRequest("a NUL character cannot be part of SQL")
