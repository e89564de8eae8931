"""What a source's database, table or column is called in the lake.

Spark and Hudi accept less than databases do, so lake names are derived: pure
functions of the source names and of the names pinned before. Nothing here knows
where names are stored.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Source = TypeVar("Source", str, tuple[str, str])

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
# One sign may become thirty letters, and a folder's name has 255 bytes.
_MOST_TRANSLITERATED = 120
_ASCII_OUTSIDE = re.compile("[^a-z0-9_]")
_SUFFIX_AT_END = re.compile("_[0-9a-f]{8,64}(_[0-9]+)?$")


def plain_name(source: str) -> str:
    """The lake name of a database or table before collisions are looked at."""
    return _finish(_ASCII_OUTSIDE.sub("_", _in_latin_letters(source).lower()))


def plain_column(source: str) -> str:
    """The lake name of a column before collisions are looked at: letters stay."""
    name = source.lower()
    if name.isascii():
        return _finish(_ASCII_OUTSIDE.sub("_", name))
    return _finish("".join(map(_column_character, name)))


def suffixed(name: str, source: str, *, digits: int = 8) -> str:
    """`name` with the first digits of the SHA-256 of the source's name."""
    digest = hashlib.sha256(_bytes(source)).hexdigest()
    return f"{name}_{digest[:digits]}"


def lake_databases(
    sources: Iterable[tuple[str, str]],
    *,
    pinned: Mapping[tuple[str, str], str] | None = None,
    taken: Collection[str] = (),
) -> dict[tuple[str, str], str]:
    """(datasource, schema) → lake database, for all of `sources`.

    `pinned` are pairs named before (they keep their names whatever comes), `taken`
    further lake names in use, e.g. a target database that a user chose.
    """
    rule: _Rule[tuple[str, str]] = _Rule(
        spelled=lambda source: _database_text(*source),
        hashed=".".join,
        plain=plain_name,
    )
    return _names(rule, sources, pinned or {}, RESERVED_DATABASES | set(taken))


def lake_tables(
    sources: Iterable[tuple[str, str]],
    *,
    pinned: Mapping[tuple[str, str], str] | None = None,
    taken: Collection[str] = (),
) -> dict[tuple[str, str], str]:
    """(schema, table) → table name inside one lake database, for all of `sources`.

    `pinned` are pairs named before (they keep their names whatever comes), `taken`
    further table names of that lake database, e.g. from another datasource.
    """
    rule: _Rule[tuple[str, str]] = _Rule(
        spelled=lambda source: source[1], hashed=".".join, plain=plain_name
    )
    return _names(rule, sources, pinned or {}, taken)


def lake_columns(
    sources: Iterable[str], *, pinned: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Source column → lake column of one table, in the order given."""
    rule: _Rule[str] = _Rule(
        spelled=str, hashed=str, plain=plain_column, refused=SYSTEM_PREFIXES
    )
    return _names(rule, sources, pinned or {}, ())


def is_system_column(name: str) -> bool:
    """Whether a lake column was added by Hudi or Sluice.

    A source column that began like one carries a suffix and is not one.
    """
    return name.startswith(SYSTEM_PREFIXES) and not _SUFFIX_AT_END.search(name)


@dataclass(frozen=True, slots=True)
class _Rule(Generic[Source]):
    """spelled: what becomes the name; hashed: what the suffix is made of."""

    spelled: Callable[[Source], str]
    hashed: Callable[[Source], str]
    plain: Callable[[str], str]
    refused: tuple[str, ...] = ()

    def name(self, source: Source) -> str:
        return self.plain(self.spelled(source))

    def is_unusable(self, source: Source) -> bool:
        """Nothing of the spelling is left, or its beginning is Sluice's own."""
        plain = self.name(source)
        is_blank = plain == "t" and self.spelled(source).lower() != "t"
        return is_blank or plain.startswith(self.refused or ("\0",))

    def order(self, source: Source) -> tuple[bytes, bytes]:
        return _bytes(self.hashed(source)), _bytes(self.spelled(source))


def _names(
    rule: _Rule[Source],
    sources: Iterable[Source],
    pinned: Mapping[Source, str],
    taken: Collection[str],
) -> dict[Source, str]:
    asked = list(dict.fromkeys(sources))
    result = {source: pinned[source] for source in asked if source in pinned}
    used = {_folded(name) for name in (*taken, *pinned.values())}
    if not result and (plain := _undisputed(rule, asked, used)):
        return plain
    rivals: dict[str, list[Source]] = {}
    for source in sorted(set(asked) - set(result), key=rule.order):
        rivals.setdefault(_folded(rule.name(source)), []).append(source)

    losers: list[Source] = []
    for fold, group in rivals.items():
        winner = None if fold in used else _winner(rule, group)
        losers += [source for source in group if source != winner]
        if winner is not None:
            result[winner] = rule.name(winner)
    used |= {_folded(name) for name in result.values()}
    for source in sorted(losers, key=rule.order):
        tries = _tries(rule.name(source), rule.hashed(source))
        result[source] = next(name for name in tries if _folded(name) not in used)
        used.add(_folded(result[source]))
    return {source: result[source] for source in asked}


def _undisputed(
    rule: _Rule[Source], asked: Collection[Source], used: Collection[str]
) -> dict[Source, str]:
    """The plain names, where each can have its own, as nearly always; else none."""
    plain = {source: rule.name(source) for source in asked}
    folds = {_folded(name) for name in plain.values()}
    refused = rule.refused or ("\0",)
    is_odd = any(name == "t" or name.startswith(refused) for name in plain.values())
    is_alone = len(folds) == len(plain) and folds.isdisjoint(used)
    return plain if is_alone and not is_odd else {}


def _winner(rule: _Rule[Source], group: list[Source]) -> Source | None:
    """Who of those that want one name gets it plain: the only or the equal one."""
    if len(group) == 1:
        return None if rule.is_unusable(group[0]) else group[0]
    for source in group:
        if rule.spelled(source) == rule.name(source) and not rule.is_unusable(source):
            return source
    return None


def _tries(name: str, source: str) -> Iterator[str]:
    for digits in (8, 16, 32, 64):
        yield suffixed(name, source, digits=digits)
    again = 2
    while True:
        yield f"{suffixed(name, source)}_{again}"
        again += 1


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _database_text(datasource: str, schema: str) -> str:
    return datasource if schema == "public" else f"{datasource}_{schema}"


def _column_character(character: str) -> str:
    if character.isascii():
        return "_" if _ASCII_OUTSIDE.match(character) else character
    # Avro looks at UTF-16 units, so a letter beyond the first plane is none.
    is_letter = character.isalpha() and ord(character) <= 0xFFFF
    return character if is_letter and not _TOO_NEW.match(character) else "_"


def _in_latin_letters(source: str) -> str:
    """客户 → KeHu, Größe → Grosse; what no table of letters knows becomes `_`."""
    if source.isascii():
        return source
    # Spark processes import this module, name nothing, and have no such library
    from anyascii import anyascii

    composed = unicodedata.normalize("NFC", source)
    return "".join(anyascii(c) or "_" for c in composed)[:_MOST_TRANSLITERATED]


def _finish(name: str) -> str:
    if name[:1].isdigit():
        name = f"_{name}"
    return name if name.strip("_") else "t"


def _folded(name: str) -> str:
    """Equal for names that Java's equalsIgnoreCase, hence Spark, takes as equal."""
    if name.isascii():
        return name.lower()
    return "".join(_one(str.lower, _one(str.upper, c)) for c in name)


def _one(convert: Callable[[str], str], character: str) -> str:
    converted = convert(character)
    return converted if len(converted) == 1 else character
