"""`propose_table()`: facts and choices in, a plan in which every value has a reason.

Pure. What cannot be decided safely is not guessed: the plan is `blocked` and says
what to choose. Choices that are wrong in themselves raise InvalidRequest.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema.types import Column
from catalog.sources.registry import cannot_hold, kind_named
from core.errors import InvalidRequest
from core.sentences import Sentence, as_sentence
from ingest.planning.as_text import what_stops, with_texts
from ingest.planning.capture_limits import TRAPS, cautions_of, reading_of
from ingest.planning.cursor import propose_cursor, what_is_late, what_is_missed
from ingest.planning.facts import LOG, ROW_HASH, Choices, Conditions, TableFacts, Target
from ingest.planning.key import propose_key
from ingest.planning.log import what_is_seen, why_not_followed
from ingest.planning.partitions import BY_DAY, refuse_unfit, what_holds, why_too_many
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    FollowLog,
    LoadSnapshot,
    PlannedColumn,
    Proposal,
    Publish,
    Step,
    TablePlan,
    Verify,
    with_left_out,
)

# ----------------------------------------------------------------- sizes and buckets

# Rules of thumb, named: they only have to be right within a factor of two, because a
# bucket count that is a bit off costs little and is pinned for long.


TARGET_BYTES = 128 * 1024 * 1024
# Hudi's writer looks after 100 rows first how much of a file it holds in memory. Of
# rows as wide as these that is all of the file, so it has to be a small one.
WIDE_ROW_BYTES = 256 * 1024
TARGET_BYTES_OF_WIDE_ROWS = 32 * 1024 * 1024
MOST_SMALL_BUCKETS = 200
HUDI_DEFAULT_BUCKETS = 256
PARQUET_RATIO = 0.5
META_BYTES = 24

_WIDTHS = {
    "boolean": 1,
    "int": 4,
    "bigint": 8,
    "float": 4,
    "double": 8,
    "date": 4,
    "timestamp": 8,
    "timestamp_ntz": 8,
}
_VARIABLE_WIDTH = 24


def lake_bytes(facts: TableFacts) -> int:
    """Expected bytes of the lake table's base files; of its staged chunks, too, which
    lie beside it until they are read."""
    rows = max(0, facts.estimated_rows)
    # by its types alone, when the source gave no size
    width = sum(_WIDTHS.get(c.type, _VARIABLE_WIDTH) for c in facts.schema.columns)
    raw = facts.estimated_bytes or rows * width
    return int((raw + rows * META_BYTES) * PARQUET_RATIO)


def propose_buckets(facts: TableFacts, choices: Choices) -> Proposal:
    """So many buckets that a file group holds about 64 to 128 MB, or 32 MB of wide
    rows. At least one."""
    size = lake_bytes(facts)
    if choices.buckets is not None:
        return Proposal(choices.buckets, "chosen", is_chosen=True)
    count = max(1, -(-size // TARGET_BYTES))
    if size > facts.estimated_rows * WIDE_ROW_BYTES > 0:
        small = -(-size // TARGET_BYTES_OF_WIDE_ROWS)
        count = max(count, min(small, MOST_SMALL_BUCKETS))
    if count == HUDI_DEFAULT_BUCKETS:
        count -= 1
    if not facts.estimated_rows and not facts.estimated_bytes:
        return Proposal(1, "the source table is empty or was never analysed")
    each = max(1, size // count // (1024 * 1024))
    return Proposal(
        count,
        Sentence(
            "about %(estimated_rows)s rows, %(size)s MB in the lake:"
            " %(each)s MB per file group",
            estimated_rows=f"{facts.estimated_rows:,}",
            size=f"{max(1, size // 1_048_576):,}",
            each=f"{each:,}",
        ),
    )


MAX_BUCKETS = 4096
MOST_NAMED = 5


def propose_table(
    facts: TableFacts, choices: Choices, target: Target, conditions: Conditions
) -> TablePlan:
    """The plan for one table; InvalidRequest (facts.field) for impossible choices."""
    _require_known(facts, choices)
    facts, target = with_texts(facts, choices, target)
    carried = [
        c for c in facts.schema.columns if c.source_name not in choices.exclude_columns
    ]
    proposals = {
        "record_key": propose_key(facts, choices, carried, capture=conditions.capture),
        "cursor": propose_cursor(facts, choices, carried, conditions),
        "partition_by": _propose_partitioning(facts, choices),
        "buckets": propose_buckets(facts, choices),
        "updates": propose_updates(facts, choices, conditions),
    }
    blocked = _why_blocked(facts, carried, proposals, conditions)
    plan = TablePlan(
        source=facts.source_name,
        database=target.database,
        name=target.name,
        fingerprint=facts.fingerprint,
        proposals=proposals,
        steps=()
        if blocked
        else _steps(facts, carried, proposals, target=target, conditions=conditions),
        warnings=_warnings(
            facts, carried, proposals, target, conditions, choices.exclude_columns
        ),
        excluded=choices.exclude_columns,
        as_text=choices.as_text,
        blocked=blocked,
        reading=reading_of(facts, conditions),
        is_target_chosen=target.is_chosen,
    )
    return with_left_out(plan, facts.schema)


def _require_known(facts: TableFacts, choices: Choices) -> None:
    known = {c.source_name for c in facts.schema.columns}
    key = () if choices.record_key in {None, ROW_HASH} else choices.record_key or ()
    named: dict[str, tuple[str, ...]] = {
        "record_key": tuple(key),
        "cursor": (choices.cursor,) if choices.cursor else (),
        "partition_by": choices.partition_by,
        "as_text": choices.as_text,
        "exclude_columns": choices.exclude_columns,
    }
    for field, names in named.items():
        may_name = known | ({*facts.hidden} if field == "exclude_columns" else set())
        unknown = [name for name in names if name not in may_name]
        if unknown:
            raise _unknown(facts, unknown[0], field)
        used = set(names) & set(choices.exclude_columns)
        if field != "exclude_columns" and used:
            raise InvalidRequest(
                "column '%(used)s' of %(source_name)s is excluded and also"
                " chosen as %(field)s",
                used=sorted(used)[0],
                source_name=facts.source_name,
                field=field,
                code="column_excluded",
                facts={"field": field, "table": facts.source_name},
            )
    if choices.buckets is not None and not 1 <= choices.buckets <= MAX_BUCKETS:
        raise InvalidRequest(
            "%(buckets)s buckets for %(source_name)s",
            max_buckets=MAX_BUCKETS,
            buckets=choices.buckets,
            source_name=facts.source_name,
            code="invalid_buckets",
            hint="choose 1 to %(max_buckets)s",
            facts={"field": "buckets", "table": facts.source_name},
        )


def _unknown(facts: TableFacts, name: str, field: str) -> InvalidRequest:
    about = {"field": field, "table": facts.source_name}
    if name in facts.hidden:
        return InvalidRequest(
            "the login may not SELECT column '%(column)s' of %(source_name)s",
            grant=facts.grant_of([name]),
            column=name,
            source_name=facts.source_name,
            code="column_hidden",
            hint="run %(grant)s at the source and discover again",
            facts=about,
        )
    known = sorted(column.source_name for column in facts.schema.columns)
    return InvalidRequest(
        "%(source_name)s has no column '%(unknown)s'",
        source_name=facts.source_name,
        unknown=name,
        code="unknown_column",
        hint="columns: " + ", ".join(known[:30]),
        facts=about,
    )


def _propose_partitioning(facts: TableFacts, choices: Choices) -> Proposal:
    if choices.partition_by:
        columns = [facts.schema.column(name) for name in choices.partition_by]
        refuse_unfit(facts.source_name, columns)
        return Proposal(list(choices.partition_by), "chosen", is_chosen=True)
    return Proposal(
        [],
        "not partitioned: a row whose partition value changes would be written twice, "
        "and buckets already spread the data",
    )


def _what_moves(proposals: dict[str, Proposal]) -> tuple[str, ...]:
    """A changed row is found again by its key within its partition only."""
    key = proposals["record_key"].value or ()
    free = [name for name in proposals["partition_by"].value if name not in key]
    if not free:
        return ()
    return (
        Sentence(
            "a row whose partition (%(free)s) changes is there twice"
            " afterwards: its former copy stays in the former partition."
            " :verify tells such rows, :deduplicate takes the former"
            " copies away. Partition by columns that never change",
            free=", ".join(free),
        ),
    )


def _why_blocked(
    facts: TableFacts,
    carried: list[Column],
    proposals: dict[str, Proposal],
    conditions: Conditions,
) -> str:
    """The first reason why this cannot be approved as it stands, or ""."""
    unsupported = [c for c in carried if not c.is_supported]
    if unsupported:
        named = ", ".join(f"{c.source_name} ({c.source_type})" for c in unsupported)
        return Sentence(
            "the lake has no type for: %(named)s. Go on without them by"
            " 'exclude_columns'",
            named=named,
        )
    if not carried:
        return "no column is left to sync"
    if proposals["record_key"].value is None:
        return proposals["record_key"].reason
    if conditions.capture == "timestamp":
        if refused := _why_not_by_timestamp(facts, conditions):
            return refused
        if proposals["record_key"].value == ROW_HASH:
            return (
                "a whole-row hash key cannot follow updates: every changed row would "
                "stay in its old form too. Use capture 'snapshot', or choose columns "
                "as 'record_key'"
            )
        if proposals["cursor"].value is None:
            return proposals["cursor"].reason
    if conditions.capture == LOG:
        sharded = conditions.is_sharded
        if refused := why_not_followed(facts, carried, proposals, is_sharded=sharded):
            return refused
    if too_many := _why_too_many_partitions(facts, proposals):
        return too_many
    needed = 2 * lake_bytes(facts)
    if conditions.free_bytes is not None and needed > conditions.free_bytes:
        return Sentence(
            "the load needs about %(needed)s of space (staging and table)"
            " and %(free_bytes)s are free",
            needed=_mb(needed),
            free_bytes=_mb(conditions.free_bytes),
        )
    return ""


def _why_too_many_partitions(facts: TableFacts, proposals: dict[str, Proposal]) -> str:
    key = proposals["record_key"].value
    chosen = [] if key == ROW_HASH else [tuple(key)]
    columns = [facts.schema.column(name) for name in proposals["partition_by"].value]
    return why_too_many(
        # many rows share a day
        [c.source_name for c in columns if c.type not in BY_DAY],
        uniques=[*chosen, *facts.unique_indexes],
        rows=facts.estimated_rows,
    )


def _why_not_by_timestamp(facts: TableFacts, conditions: Conditions) -> str:
    """Where rows could commit below the high watermark without anybody seeing it."""
    if "foreign" in facts.traits:
        return Sentence(
            "rows of %(source_name)s are at another server, whose"
            " transactions the source does not show: rows would be passed"
            " over. Use capture 'snapshot', or add that server as a source",
            source_name=facts.source_name,
        )
    if facts.is_standby and not conditions.lag_is_chosen:
        return (
            "the source is a standby, a replica or one of several members of a cluster,"
            " which does not show the open transactions of other servers: set"
            " 'lag_seconds' by policy, longer than the longest of them, and propose"
            " again; or read from the primary"
        )
    return ""


def _steps(
    facts: TableFacts,
    carried: list[Column],
    proposals: dict[str, Proposal],
    *,
    target: Target,
    conditions: Conditions,
) -> tuple[Step, ...]:
    key = proposals["record_key"].value
    steps: list[Step] = [
        CreateTable(
            database=target.database,
            name=target.name,
            path=target.path,
            record_key=() if key == ROW_HASH else tuple(key),
            row_hash=key == ROW_HASH,
            partition_by=tuple(proposals["partition_by"].value),
            buckets=proposals["buckets"].value,
            columns=tuple(_planned(c, target) for c in carried),
            lock=conditions.lock,
            updates=proposals["updates"].value,
        ),
        LoadSnapshot(
            estimated_rows=facts.estimated_rows,
            staging_bytes=lake_bytes(facts),
        ),
        Verify(),
    ]
    if conditions.capture == "timestamp":
        steps.append(
            ApplyChanges(
                cursor=proposals["cursor"].value,
                every_seconds=conditions.every_seconds,
                lag_seconds=conditions.lag_seconds,
                missed=_missed(facts, proposals, conditions),
                when=conditions.when,
            )
        )
    if conditions.capture == LOG:
        steps.append(FollowLog(what_is_seen(facts.source_kind)))
    lake = f"lake.{target.database}.{target.name}"
    steps.append(Publish(lake=lake, jdbc=f"{target.database}.{target.name}"))
    return tuple(steps)


def _missed(
    facts: TableFacts, proposals: dict[str, Proposal], conditions: Conditions
) -> tuple[str, ...]:
    cursor = proposals["cursor"].value
    return (*what_is_missed(facts, cursor, conditions), *_what_moves(proposals))


def _planned(column: Column, target: Target) -> PlannedColumn:
    return PlannedColumn(
        source_name=column.source_name,
        name=target.column_names.get(column.source_name, column.name),
        source_type=column.source_type,
        type=column.type,
        nullable=column.nullable,
        key=column.key,
        lossy=target.lossy.get(column.source_name, ""),
    )


# How warnings begin by which no row or value is missing.
GOOD_TO_KNOW = ("keyed by a hash", "columns under another name", "loaded once")


def _warnings(
    facts: TableFacts,
    carried: list[Column],
    proposals: dict[str, Proposal],
    target: Target,
    conditions: Conditions,
    excluded: Sequence[str],
) -> tuple[str, ...]:
    found: list[str] = [*cautions_of(facts, conditions)]
    found += _hidden(facts, excluded)
    found += _key_forms(facts, proposals)
    key = proposals["record_key"].value
    if key and key != ROW_HASH:
        found += what_stops([facts.schema.column(n) for n in key], facts.source_kind)
    if conditions.capture == "timestamp":
        found += _not_guaranteed(facts, proposals)
    if conditions.capture == "snapshot":
        found.append("loaded once: later changes are synced by a resync only")
        if not kind_named(facts.source_kind).shares_snapshots:
            found.append(
                "a load of several chunks shows each at its own moment: this kind of "
                "source shares no snapshot between connections without a lock"
            )
    elif conditions.capture == LOG:
        found += what_is_seen(facts.source_kind)
    elif proposals["cursor"].value:
        found += what_is_late(facts, proposals["cursor"].value)
        found += _missed(facts, proposals, conditions)
    columns = [facts.schema.column(name) for name in proposals["partition_by"].value]
    found += what_holds(
        [(c, target.column_names.get(c.source_name, c.name)) for c in columns]
    )
    if proposals["updates"].value == "partial":
        found += what_partial_means()
    if proposals["record_key"].value == ROW_HASH:
        found.append(
            "keyed by a hash of the whole row: equal rows become one row with a"
            " duplicate count"
        )
    found += _lossy_texts(carried, target, facts.source_kind)
    renamed = [
        f"{c.source_name} → {target.column_names[c.source_name]}"
        for c in carried
        if target.column_names.get(c.source_name, c.source_name) != c.source_name
    ]
    if renamed:
        found.append(
            Sentence("columns under another name: %(names)s", names=", ".join(renamed))
        )
    return tuple(found)


def _hidden(facts: TableFacts, excluded: Sequence[str]) -> list[str]:
    """Columns that nobody left out and that are left out all the same."""
    names = [name for name in facts.hidden if name not in excluded]
    if facts.hides_indexes:
        return [
            Sentence(
                "not synced: columns that the login may not SELECT, of which the source"
                " tells it nothing; %(grant)s shows them, and then which right is"
                " missing",
                grant=facts.structure_grant,
            )
        ]
    if not names:
        return []
    return [
        Sentence(
            "not synced, because the login may not SELECT them: %(names)s. To have"
            " them, run %(grant)s at the source and discover again",
            names=_first_of(names, len(names)),
            grant=facts.grant_of(names),
        )
    ]


def _key_forms(facts: TableFacts, proposals: dict[str, Proposal]) -> tuple[str, ...]:
    """Of the columns that were proposed or chosen as the key."""
    key = proposals["record_key"].value
    if not key or key == ROW_HASH:
        return ()
    named = [f"{n} ({facts.key_forms[n]})" for n in key if n in facts.key_forms]
    if not named:
        return ()
    return (
        Sentence(
            "the source takes several texts of the key for one value:"
            " %(named)s: %(unseen)s",
            named=", ".join(named),
            unseen=as_sentence(TRAPS["key_forms"].unseen),
        ),
    )


def _not_guaranteed(facts: TableFacts, proposals: dict[str, Proposal]) -> list[str]:
    """Of a chosen key that no index of the source keeps unique."""
    key = proposals["record_key"].value
    uniques = [facts.schema.primary_key, *facts.unique_indexes]
    if not key or key == ROW_HASH or any(u and set(u) <= set(key) for u in uniques):
        return []
    trap = TRAPS["lost_unique"]
    return [
        Sentence(
            "no unique index over NOT NULL columns keeps %(key)s unique at"
            " the source. Not seen: %(unseen)s. What Sluice does: %(does)s",
            key=", ".join(key),
            unseen=as_sentence(trap.unseen),
            does=as_sentence(trap.does),
        )
    ]


def _lossy_texts(carried: list[Column], target: Target, kind: str) -> list[str]:
    """One sentence for all columns of which the same is true."""
    alike: dict[str, list[Column]] = {}
    for column in carried:
        if lossy := target.lossy.get(column.source_name, ""):
            alike.setdefault(_what_is_lost(column, lossy, kind), []).append(column)
    return [
        Sentence("%(what)s: %(text)s", what=_named(columns), text=lost)
        for lost, columns in alike.items()
    ]


def _what_is_lost(column: Column, lossy: str, kind: str) -> Sentence:
    if lossy == "string":
        return Sentence("synced as text, because the lake's numbers cannot hold it")
    values = cannot_hold(column.source_type, column.type, kind=kind)
    return Sentence("values no lake type has (%(values)s) become NULL", values=values)


def _named(columns: list[Column]) -> str:
    named = [f"'{c.source_name}' ({c.source_type})" for c in columns[:MOST_NAMED]]
    if len(columns) == 1:
        return Sentence("column %(name)s", name=named[0])
    names = _first_of(named, len(columns))
    return Sentence("%(count)s columns, %(names)s", count=len(columns), names=names)


def _first_of(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    if count <= MOST_NAMED:
        return shown
    return Sentence("%(names)s and %(rest)s more", names=shown, rest=count - MOST_NAMED)


def _mb(size: int) -> str:
    return f"{max(1, size // 1_000_000):,} MB"


def propose_updates(
    facts: TableFacts, choices: Choices, conditions: Conditions
) -> Proposal:
    """ "full" unless chosen; InvalidRequest for a table that has no updates at all."""
    if choices.updates == "partial" and conditions.capture == "snapshot":
        raise InvalidRequest(
            "%(source_name)s is loaded once, so it has no partial updates",
            source_name=facts.source_name,
            code="invalid_updates",
            hint="leave 'updates' out"
            if conditions.is_sharded
            else "choose capture 'timestamp', or leave 'updates' out",
            facts={"field": "updates", "table": facts.source_name},
        )
    if choices.updates == "partial":
        reason = "chosen: a NULL in a changed row leaves the value in the lake"
        return Proposal("partial", reason, is_chosen=True, choices=("full",))
    return Proposal(
        "full",
        "a changed row replaces the lake's row whole, NULLs included",
        is_chosen=choices.updates == "full",
        choices=("partial",) if conditions.capture == "timestamp" else (),
    )


def what_partial_means() -> tuple[str, ...]:
    """In sentences for people, told before they approve."""
    return (
        "partial updates: a column that is NULL in a changed row keeps the value it "
        "has in the lake, so a sync never sets a column to NULL",
        "partial updates: columns count as wholes, an array is replaced or kept; a "
        "value that has no form in the lake counts as NULL",
        "partial updates: a row that is deleted and inserted again at the source "
        "keeps its old values where the new row has NULL",
        "partial updates: a resync takes the rows as the source has them then, NULLs "
        "too, and what was kept is gone; the choice is fixed for the table's life",
    )
