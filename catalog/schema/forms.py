"""Values of a key that a source takes for one and the lake for several. Pure.

A lake table compares keys byte by byte. Where the source's own comparison is wider, a
key that is written in another form is another row there.
"""

from __future__ import annotations

import re

_PADDED = re.compile(r"^(var)?char\b|text\b", re.IGNORECASE)
_COLLATED = re.compile(r"^(var)?char\b|text\b|^enum\b|^set\b", re.IGNORECASE)
_FLOATS = frozenset({"real", "double precision", "float", "double"})
_BY_TYPE = {
    "numeric": "1.0 and 1.00",
    "citext": "upper and lower case",
    "jsonb": "1.0 and 1.00 inside",
    "interval": "1 day and 24 hours",
    "numrange": "1.0 and 1.00 as bounds",
}
_CASE = "letters that its collation takes for the same"
_ZEROS = "0 and -0"
_SPACES = "spaces at the end"


def postgresql_forms(source_type: str, *, is_nondeterministic: bool) -> str:
    """Examples of what is equal there and differs in the lake; "" = nothing is."""
    if is_nondeterministic:
        return _CASE
    base = source_type.removesuffix("[]").rpartition(".")[2]
    if base in _FLOATS:
        return _ZEROS
    return _BY_TYPE.get(base, "")


def mariadb_forms(source_type: str, collation: str | None) -> str:
    """The same; `collation` None for types that have none."""
    base = source_type.partition("(")[0].partition(" ")[0].lower()
    if base in _FLOATS:
        return _ZEROS
    if collation is None or not _COLLATED.search(source_type):
        return ""
    is_exact = collation == "binary" or collation.endswith("_bin")
    # MySQL's collations of Unicode 9 and later pad nothing, MariaDB's say so
    pads = "nopad" not in collation and "_0900_" not in collation
    # values of CHAR are read without the spaces at their end
    keeps_spaces = _PADDED.search(source_type) is not None and base != "char"
    found = [
        "" if is_exact else "upper and lower case, accents",
        _SPACES if pads and keeps_spaces and collation != "binary" else "",
    ]
    return ", ".join(text for text in found if text)
