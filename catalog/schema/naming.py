"""What a source's database, table or column is called in the lake.

Spark and Hudi accept less than databases do, so lake names are derived: pure
functions of the source names and of the names pinned before. Nothing here knows
where names are stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

Source = TypeVar("Source", bound=Hashable)

# Names that Spark or the gateway give a meaning of their own.
RESERVED_DATABASES = frozenset(
    {
        "default",
        "global_temp",
        "information_schema",
        "lake",
        "session",
        "spark_catalog",
        "system",
    }
)
SYSTEM_PREFIXES = ("_hoodie_", "_sluice_")
# Letters newer than the Unicode 13 of Java 17: Avro there refuses them.
_TOO_NEW = re.compile(
    "[\u0870-\u0887\u0889-\u088e\u08b5\u08c8\u08c9\u0c5d\u0cdd\u170d\u171f\u1b4c\u2c2f"
    "\u2c5f\u9ffd-\u9fff\ua7c0\ua7c1\ua7d0\ua7d1\ua7d3\ua7d5-\ua7d9\ua7f2-\ua7f4]"
)
_ASCII_OUTSIDE = re.compile("[^a-z0-9_]")
_SUFFIXED = re.compile("_[0-9a-f]{8,}(_[0-9]+)?")


def plain_name(source: str) -> str:
    """The lake name of a database or table before collisions are looked at."""
    return _finish(_ASCII_OUTSIDE.sub("_", source.lower()))


def plain_column(source: str) -> str:
    """The lake name of a column before collisions are looked at: letters stay."""
    return _finish("".join(map(_column_character, source.lower())))


def suffixed(name: str, source: str, *, digits: int = 8) -> str:
    """`name` with the first digits of the SHA-256 of the source's name."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name}_{digest[:digits]}"


def plain_database(datasource: str, schema: str) -> str:
    """`{datasource}_{schema}` as a lake name; just the datasource for `public`."""
    return plain_name(_database_text(datasource, schema))


def lake_databases(
    sources: Iterable[tuple[str, str]],
    *,
    pinned: Mapping[tuple[str, str], str] | None = None,
    taken: Collection[str] = (),
) -> dict[tuple[str, str], str]:
    """(datasource, schema) → lake database, for all of `sources` and `pinned`.

    `taken` are lake names in use by anything else, e.g. a chosen target database.
    """
    return _names(
        sources,
        plain=lambda source: plain_name(_database_text(*source)),
        text=".".join,
        is_equal=lambda source, name: _database_text(*source) == name,
        pinned=pinned or {},
        taken=RESERVED_DATABASES | set(taken),
    )


def lake_tables(
    sources: Iterable[tuple[str, str]],
    *,
    pinned: Mapping[tuple[str, str], str] | None = None,
    taken: Collection[str] = (),
) -> dict[tuple[str, str], str]:
    """(schema, table) → table name inside one lake database.

    `sources` are the tables to name, `pinned` those named before (they keep their
    names whatever comes), `taken` names of that lake database used otherwise.
    """
    return _names(
        sources,
        plain=lambda source: plain_name(source[1]),
        text=".".join,
        is_equal=lambda source, name: source[1] == name,
        pinned=pinned or {},
        taken=set(taken),
    )


def lake_columns(
    sources: Iterable[str],
    *,
    pinned: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Source column → lake column of one table, in the order given."""
    return _names(
        sources,
        plain=plain_column,
        text=str,
        is_equal=lambda source, name: source == name,
        pinned=pinned or {},
        taken=set(),
        must_suffix=lambda name: name.startswith(SYSTEM_PREFIXES),
    )


def is_system_column(name: str) -> bool:
    """Whether a lake column was added by Hudi or Sluice.

    A source column that began like one carries a suffix and is not one.
    """
    for prefix in SYSTEM_PREFIXES:
        if name.startswith(prefix):
            return not re.search(f"{_SUFFIXED.pattern}$", name[len(prefix) - 1 :])
    return False


def _database_text(datasource: str, schema: str) -> str:
    return datasource if schema == "public" else f"{datasource}_{schema}"


def _column_character(character: str) -> str:
    if character.isascii():
        return "_" if _ASCII_OUTSIDE.match(character) else character
    # Avro looks at UTF-16 units, so a letter beyond the first plane is none.
    is_letter = character.isalpha() and ord(character) <= 0xFFFF
    return character if is_letter and not _TOO_NEW.match(character) else "_"


def _finish(name: str) -> str:
    if name[:1].isdigit():
        name = f"_{name}"
    return name if name.strip("_") else "t"


def _folded(name: str) -> str:
    """Equal for names that Java's equalsIgnoreCase, hence Spark, takes as equal."""
    return "".join(_one(str.lower, _one(str.upper, c)) for c in name)


def _one(convert: Callable[[str], str], character: str) -> str:
    converted = convert(character)
    return converted if len(converted) == 1 else character


def _names(
    sources: Iterable[Source],
    *,
    plain: Callable[[Source], str],
    text: Callable[[Source], str],
    is_equal: Callable[[Source, str], bool],
    pinned: Mapping[Source, str],
    taken: Collection[str],
    must_suffix: Callable[[str], bool] = lambda _: False,
) -> dict[Source, str]:
    asked = list(dict.fromkeys(sources))
    result = dict(pinned)
    new = [source for source in asked if source not in result]
    used = {_folded(name) for name in (*taken, *result.values())}
    wishes: dict[str, list[Source]] = {}
    for source in new:
        wishes.setdefault(_folded(plain(source)), []).append(source)

    suffix: list[Source] = []
    for fold, rivals in wishes.items():
        name = plain(rivals[0])
        equal = [s for s in rivals if is_equal(s, plain(s))]
        is_refused = fold in used or (name == "t" and not equal) or must_suffix(name)
        winners = [] if is_refused else (rivals if len(rivals) == 1 else equal)[:1]
        # Nothing equals "t" but a table of that name: `-` and `_` get a suffix.
        for source in winners:
            result[source] = plain(source)
            used.add(fold)
        suffix += [s for s in rivals if s not in winners]
    for source in sorted(suffix, key=lambda s: (text(s).encode("utf-8", "replace"), s)):
        name = next(n for n in _tries(plain(source), text(source)) if n not in used)
        result[source] = name
        used.add(_folded(name))
    return {source: result[source] for source in (*pinned, *asked)}


def _tries(name: str, source: str) -> Iterator[str]:
    for digits in (8, 16, 32, 64):
        yield suffixed(name, source, digits=digits)
    again = 2
    while True:
        yield f"{suffixed(name, source)}_{again}"
        again += 1
