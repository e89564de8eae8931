"""What limits a principal on one table: columns, rows, what masks show. Pure.

Grants give columns, and rules take away: every row filter that binds the principal
must be true of a row, and a mask stands in a column instead of its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from catalog.access.policy import HeldGrant, Principal, Privilege, Securable, granting
from catalog.names import LAKE, join_name

EVERYONE = "everyone"
# Two masks of one column bind the principal: what to show cannot be decided.
HIDDEN = "hidden"
# Columns of ours and Hudi's that tell nothing of a row's values, and those with the
# values of keys and partitions in them.
WITHOUT_VALUES = frozenset(
    {"_hoodie_commit_time", "_hoodie_commit_seqno", "_sluice_seq", "_sluice_deleted"}
)
WITH_KEYS = frozenset(
    {"_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"}
)


class RuleKind(StrEnum):
    ROW_FILTER = "row_filter"
    MASK = "mask"


class MaskKind(StrEnum):
    REDACT = "redact"
    HASH = "hash"
    PARTIAL = "partial"
    NULL = "null"
    YEAR = "year"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class HeldRule:
    """A stored rule as a value.

    column      of a mask; "" of a row filter
    applies_to  "everyone", "user:ann", "group:bi"; `excepted` likewise
    mask        a MaskKind; "" of a row filter
    expression  the condition of a row filter, the value of a mask by expression
    """

    on: Securable
    applies_to: frozenset[str]
    excepted: frozenset[str] = frozenset()
    column: str = ""
    mask: str = ""
    expression: str = ""
    id: int = 0

    @property
    def kind(self) -> RuleKind:
        return RuleKind.MASK if self.column else RuleKind.ROW_FILTER

    def binds(self, principal: Principal) -> bool:
        """Administrators too, unless they are excepted."""
        named = principal.grantees | {EVERYONE}
        return bool(named & self.applies_to) and not named & self.excepted


@dataclass(frozen=True, slots=True)
class Mask:
    """text  the expression, or the key of a hash"""

    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TableRights:
    """columns  the only ones that exist for the principal; None for all
    filters  conditions in SQL, ANDed
    masks    (column, mask) in order
    """

    columns: frozenset[str] | None = None
    filters: tuple[str, ...] = ()
    masks: tuple[tuple[str, Mask], ...] = ()

    @property
    def is_whole(self) -> bool:
        return self == WHOLE

    def covers(self, other: TableRights) -> bool:
        """True when `other` shows nothing more than this."""
        if self.columns is not None and (
            other.columns is None or not other.columns <= self.columns
        ):
            return False
        shown = {c: m for c, m in self.masks if _is_in(c, other.columns)}
        theirs = dict(other.masks)
        return set(self.filters) <= set(other.filters) and all(
            theirs.get(column) == mask for column, mask in shown.items()
        )

    def is_plain(self, column: str) -> bool:
        """Whether the column's own values may be seen."""
        return _is_in(column, self.columns) and column not in dict(self.masks)

    def shows(self, column: str, *, shows_keys: bool) -> bool:
        """Whether it exists for the principal, by the engine's own rules; `shows_keys`:
        all columns of the key and the partition are plain."""
        if self.columns is None and not self.masks:
            return True
        if column in WITHOUT_VALUES:
            return True
        if column in WITH_KEYS:
            return shows_keys
        if self.columns is None and column.startswith(("_sluice_", "_hoodie_")):
            return False
        mask = dict(self.masks).get(column)
        is_undecided = mask is not None and mask.kind == HIDDEN
        return _is_in(column, self.columns) and not is_undecided


WHOLE = TableRights()
NOTHING = TableRights(columns=frozenset())


def _is_in(column: str, columns: frozenset[str] | None) -> bool:
    return columns is None or column in columns


@dataclass(frozen=True, slots=True)
class Limits:
    """All that limits one principal on tables, to be asked table by table. Those of the
    lake are `db.table`, others are named with their source."""

    tables: Mapping[str, TableRights] = field(default_factory=dict)

    def on(self, database: str, table: str) -> TableRights:
        """Of a table of the lake."""
        return self.tables.get(join_name(database, table), WHOLE)

    def at(self, on: Securable) -> TableRights:
        return self.tables.get(_key(on), WHOLE)


def _key(on: Securable) -> str:
    return join_name(on.database, on.table) if on.datasource == LAKE else str(on)


def limits_of(
    principal: Principal,
    grants: Iterable[HeldGrant],
    rules: Iterable[HeldRule],
    *,
    hash_key: str = "",
) -> Limits:
    """By table, for those that are not whole; grants and rules of others are
    ignored. `hash_key` goes into hashes, so that they cannot be looked up."""
    held = [g for g in grants if g.grantee in principal.grantees]
    columns = {} if principal.is_admin else _columns(held)
    by_table: dict[Securable, list[HeldRule]] = {on: [] for on in columns}
    for rule in sorted(rules, key=lambda rule: rule.id):
        if rule.binds(principal):
            by_table.setdefault(rule.on, []).append(rule)
    return Limits(
        {
            _key(on): TableRights(
                columns.get(on), _filters(binding), _masks(binding, hash_key)
            )
            for on, binding in by_table.items()
        }
    )


def _columns(held: list[HeldGrant]) -> dict[Securable, frozenset[str]]:
    """The union of granted columns, of tables of which nothing gives all."""
    gives = [g for g in held if g.privilege in granting(Privilege.SELECT)]
    found: dict[Securable, frozenset[str]] = {}
    for grant in gives:
        if grant.columns:
            found[grant.on] = found.get(grant.on, frozenset()) | grant.columns
    whole = [g.on for g in gives if not g.columns]
    return {
        on: columns
        for on, columns in found.items()
        if not any(each.covers(on) for each in whole)
    }


def _filters(rules: list[HeldRule]) -> tuple[str, ...]:
    filters = {r.expression for r in rules if r.kind is RuleKind.ROW_FILTER}
    return tuple(sorted(filters))


def _masks(rules: list[HeldRule], hash_key: str) -> tuple[tuple[str, Mask], ...]:
    found: dict[str, Mask] = {}
    for rule in rules:
        if rule.kind is not RuleKind.MASK:
            continue
        text = hash_key if rule.mask == MaskKind.HASH else rule.expression
        two = rule.column in found
        found[rule.column] = Mask(HIDDEN) if two else Mask(rule.mask, text)
    return tuple(sorted(found.items()))
