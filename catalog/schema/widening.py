"""Whether the stored values of a column survive a change of its type. Pure.

Only what was proven on Hudi's merge-on-read tables counts, read by Spark and by a
second reader before and after a compaction. Not among it: float → double, where Hudi
reads 3.1 of an old file while the source has 3.0999999046325684 from then on; and
arrays, which the reader of base files refuses.
"""

from __future__ import annotations

import re

from catalog.schema.types import DataType

# Narrow to wide; each holds every value of those before it, in the same lake type.
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "integer", "bigint")
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_STRINGS = frozenset({"varchar", "character varying"})
_MOMENTS = frozenset({"datetime", "timestamp"})
_TYPE = re.compile(r"(?P<name>[a-z ]*[a-z])\s*(?:\((?P<size>\d+)\))?(?P<rest>.*)", re.S)
_UNBOUNDED = 1 << 62


def widens_in_place(old: str, new: str) -> bool:
    """Whether Hudi reads values of lake type `old` as `new` without a rewrite."""
    if (old, new) == ("int", "bigint"):
        return True
    a, b = DataType.parse(old), DataType.parse(new)
    if (a.name, b.name) != ("decimal", "decimal"):
        return False
    return a.scale == b.scale and a.precision < b.precision


def keeps_values(old: str, new: str) -> bool:
    """Whether the source's type grew from `old` to `new` so that no stored value of an
    unchanged lake type reads otherwise. False when it is not known."""
    a, b = old.strip(), new.strip()
    if a == b:
        return True
    if a.lower().startswith(("enum(", "set(")):
        # values that are appended leave those before them as they are; one that is
        # written in other letters reads so in every row
        return b.startswith(a.removesuffix(")") + ",")
    a, b = a.lower(), b.lower()
    if a == b:
        return True
    left, right = _TYPE.fullmatch(a), _TYPE.fullmatch(b)
    if left is None or right is None:
        return False
    return _grows(left, right)


def _grows(a: re.Match[str], b: re.Match[str]) -> bool:
    names, rests = (a["name"], b["name"]), (a["rest"].strip(), b["rest"].strip())
    if set(names) <= set(_INTEGERS):
        # the number of an integer type is only how wide it is shown
        return rests[0] == rests[1] and _rank(_INTEGERS, names)
    if names[0] in _STRINGS and names[1] in _STRINGS:
        return rests == ("", "") and _size(a) <= _size(b)
    if names[0] in _STRINGS and names[1] in {"text", "mediumtext", "longtext"}:
        # MariaDB's text ends at 65,535 bytes, its varchar does, too
        return rests == ("", "")
    for family in (_TEXTS, _BLOBS):
        if set(names) <= set(family):
            return rests == ("", "") and _rank(family, names)
    if names[0] == names[1] == "varbinary":
        return _size(a) <= _size(b)
    if names[0] == names[1] and names[0] in _MOMENTS:
        return rests == ("", "") and _digits(a) <= _digits(b)
    return False


def _rank(family: tuple[str, ...], names: tuple[str, str]) -> bool:
    return family.index(names[0]) <= family.index(names[1])


def _size(found: re.Match[str]) -> int:
    return int(found["size"]) if found["size"] else _UNBOUNDED


def _digits(found: re.Match[str]) -> int:
    """Digits of a second; MariaDB's types have none without a number."""
    return int(found["size"] or 0)
