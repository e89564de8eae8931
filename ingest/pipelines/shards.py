"""The source tables of a pipeline: one, or the shards that are one lake table.

What discovery saw of them last, together; and which of a request belong together. Must
not know how rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Prefetch, Q, QuerySet, prefetch_related_objects

from catalog.discovery.facts import log_of, schema_of
from catalog.discovery.services import start_discovery, start_look
from catalog.discovery.store import NOT_SYNCED, VANISHED
from catalog.models import Datasource, Table
from catalog.schema.diff import diff
from catalog.schema.source_log import TableLog
from catalog.schema.types import TableSchema
from core.errors import InvalidRequest
from core.models import Job
from core.sentences import Sentence, as_sentence
from ingest.contract.table import SHARD, ShardSpec
from ingest.models import Pipeline, Shard
from ingest.models.states import RETIRED
from ingest.pipelines import needed_resync
from ingest.pipelines.mistakes import Mistakes
from ingest.pipelines.requests import OnboardingRequest
from ingest.planning.patterns import select
from ingest.planning.plan import CreateTable, TablePlan, plan_from_json, plan_to_json
from ingest.planning.shards import ShardPattern, common_schema, with_shards

_READ = "shards_read"


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What discovery saw last of all source tables of a pipeline."""

    tables: tuple[Table, ...]

    @property
    def gone(self) -> tuple[str, ...]:
        """Which are not there any more."""
        return tuple(name_of(t) for t in self.tables if t.status == VANISHED)

    @property
    def fingerprint(self) -> str:
        """Of their columns: another one when one of them has others."""
        prints = {table.schema_fingerprint for table in self._there}
        return "+".join(sorted(prints))

    @property
    def schema(self) -> TableSchema:
        """What all of them have."""
        there = self._there
        if len(there) > 1:
            prefetch_related_objects(there, "columns")
        return common_schema([schema_of(table) for table in there])

    @property
    def are_unlike(self) -> bool:
        return len({table.schema_fingerprint for table in self._there}) > 1

    @property
    def log(self) -> TableLog:
        return _joined([log_of(table) or TableLog() for table in self._there])

    @property
    def _there(self) -> tuple[Table, ...]:
        found = tuple(t for t in self.tables if t.status != VANISHED)
        return found or self.tables[:1]


def is_sharded(pipeline: Pipeline) -> bool:
    """By its plan, without a statement."""
    steps = pipeline.plan.get("steps") or [{}]
    return bool(steps[0].get("shards"))


def tables_of(pipeline: Pipeline) -> list[Table]:
    """By a statement where it is a sharded one."""
    if not is_sharded(pipeline):
        return [pipeline.source_table]
    return _stored(pipeline)


def read_together(pipelines: Iterable[Pipeline]) -> None:
    """Read the shards and columns of many, and the columns of their lake tables, which
    the questions of each then need: a statement of each kind however many there are."""
    known = list(pipelines)
    related = Shard.objects.select_related("source_table__database__datasource")
    rows = Prefetch("shards", related.order_by("pk"), to_attr=_READ)
    prefetch_related_objects([p for p in known if is_sharded(p)], rows)
    tables = [table for pipeline in known for table in tables_of(pipeline)]
    prefetch_related_objects(tables, "columns")
    prefetch_related_objects(known, "lake_table__columns")


def _stored(pipeline: Pipeline) -> list[Table]:
    """Without their columns, which are many and seldom looked at."""
    if (read := getattr(pipeline, _READ, None)) is not None:
        return [shard.source_table for shard in read]
    rows = Table.objects.filter(shards__pipeline=pipeline)
    return list(rows.select_related("database__datasource").order_by("shards__pk"))


def source_side(pipeline: Pipeline) -> SourceSide:
    return SourceSide(tuple(tables_of(pipeline)))


def are_unlike(pipeline: Pipeline) -> bool:
    """Whether some of its source tables have columns that others have not."""
    return is_sharded(pipeline) and source_side(pipeline).are_unlike


def of_tables(tables: QuerySet[Table]) -> Q:
    """Pipelines of these source tables."""
    sharded = Shard.objects.filter(source_table__in=tables)
    return Q(source_table__in=tables) | Q(pk__in=sharded.values("pipeline"))


def carried_in(source: Datasource) -> set[int]:
    """Ids of the source's tables that are on their way already."""
    live = Pipeline.objects.exclude(state=RETIRED)
    own = live.filter(source_table__database__datasource=source)
    shards = Shard.objects.filter(pipeline__in=own)
    return {
        *own.values_list("source_table_id", flat=True),
        *shards.values_list("source_table_id", flat=True),
    }


def look_at(pipeline: Pipeline, *, by: str) -> Job:
    """A job that reads the columns of its source tables again."""
    return start_look(tables_of(pipeline), by=by)


def discover(pipeline: Pipeline, *, by: str) -> Job:
    """A job that reads which of them are there, and which came."""
    return start_discovery(pipeline.source_table.database.datasource, by=by)


def store(pipeline: Pipeline, tables: Iterable[Table]) -> None:
    """These are its shards from now on, in this order."""
    Shard.objects.filter(pipeline=pipeline).delete()
    Shard.objects.bulk_create(
        [Shard(pipeline=pipeline, source_table=table) for table in tables],
        batch_size=500,
    )


# ------------------------------------------------------------------- of a request


@dataclass(frozen=True, slots=True)
class Group:
    """Source tables that become one lake table. pattern None = it is one."""

    tables: tuple[Table, ...]
    pattern: ShardPattern | None = None

    @property
    def first(self) -> Table:
        return self.tables[0]

    @property
    def name(self) -> str:
        """As choices name it."""
        return self.pattern.text if self.pattern else name_of(self.first)

    @property
    def values(self) -> tuple[str, ...]:
        assert self.pattern is not None, "it has shards"
        found = (self.pattern.value_of(t.database.name, t.name) for t in self.tables)
        return tuple(value or "" for value in found)


def group_of(pipeline: Pipeline) -> Group:
    """Of one that is planned already, blocked or not."""
    if not column_of(pipeline):
        return Group((pipeline.source_table,))
    tables = tuple(_stored(pipeline))
    prefetch_related_objects(tables, "columns")
    return Group(tables, ShardPattern.parse(str(pipeline.plan["source"])))


def column_of(pipeline: Pipeline) -> str:
    """Of its shards, by its plan, or as was asked where that is blocked; "" = it has
    none."""
    if is_sharded(pipeline):
        columns = _create(plan_from_json(pipeline.plan)).columns
        return next(c.name for c in columns if c.source_name == SHARD)
    asked = pipeline.onboarding.request.get("shards") or {}
    return str(asked.get("column") or "")


def grouped(
    request: OnboardingRequest,
    tables: Sequence[Table],
    *,
    skipped: Sequence[str],
    uncarried: Mapping[str, str],
    mistakes: Mistakes,
) -> list[Group]:
    """skipped: names of tables that are carried already. uncarried: of those that
    cannot be, with the reason. One of either among the shards is a mistake: its rows
    would be missing."""
    if not request.shards:
        return [Group((table,)) for table in tables]
    cannot = dict.fromkeys(skipped, "it is synced already") | {**uncarried}
    groups, taken = [], set[int]()
    for index, text in enumerate(request.include):
        pattern = ShardPattern.parse(text)
        meant = [t for t in tables if _value(pattern, name_of(t)) is not None]
        for name, why in _refused(pattern, [*map(name_of, meant)], cannot):
            mistakes.add(
                f"/include/{index}",
                "%(name)s is not taken as a shard of %(text)s: %(why)s",
                name=name,
                text=text,
                why=as_sentence(why),
                code="invalid_shards",
                hint="exclude it to go on without it, or remove it from its sync first",
            )
        if twice := [t for t in meant if t.pk in taken]:
            mistakes.add(
                f"/include/{index}",
                "%(table)s would be a shard of two tables",
                table=name_of(twice[0]),
                code="invalid_shards",
                hint="let each table be meant by one pattern",
            )
        taken |= {table.pk for table in meant}
        if meant:
            groups.append(Group(tuple(meant), pattern))
    return groups


def _refused(
    pattern: ShardPattern, meant: Sequence[str], cannot: Mapping[str, str]
) -> list[tuple[str, str]]:
    empty = [
        (n, "its shard would have no name") for n in meant if not _value(pattern, n)
    ]
    others = [(n, w) for n, w in cannot.items() if _value(pattern, n) is not None]
    return empty + others


def _value(pattern: ShardPattern, name: str) -> str | None:
    database = name.removesuffix(f".{pattern.table}")
    return None if database == name else pattern.value_of(database, pattern.table)


# -------------------------------------------------------------------- as they are now


def not_taken(pipeline: Pipeline) -> list[Table]:
    """Tables of the source that its pattern means and that it does not read, also those
    that nobody could."""
    pattern = ShardPattern.parse(plan_from_json(pipeline.plan).source)
    rows = Shard.objects.filter(pipeline=pipeline)
    known = {*rows.values_list("source_table_id", flat=True)}
    return [table for table in _matching(pipeline, pattern) if table.pk not in known]


def renew(pipeline: Pipeline) -> None:
    """Before all of it is read again: shards that came are read with the others, and
    those that went are not. InvalidRequest `invalid_shards` for one that is not like
    them."""
    if not is_sharded(pipeline):
        return
    plan = plan_from_json(pipeline.plan)
    pattern = ShardPattern.parse(plan.source)
    now = _renewed(pipeline, plan, pattern)
    before = _create(plan).shards
    if [shard for _, shard in now] == [*before]:
        return
    store(pipeline, [table for table, _ in now])
    kept = {one.name for one in before if one.gone != "deleted"}
    if kept - {shard.name for _, shard in now}:
        # the list is no other one when this resync is cancelled, and their rows are
        # there; those that came are marked
        needed_resync.note_needed(
            pipeline,
            why=Sentence(
                "the tables of %(source)s are not those of its last load",
                source=plan.source,
            ),
        )
    pipeline.plan = plan_to_json(with_shards(plan, [shard for _, shard in now]))
    pipeline.source_table = now[0][0]
    Pipeline.objects.filter(pk=pipeline.pk).update(
        plan=pipeline.plan, source_table=pipeline.source_table
    )


def _renewed(
    pipeline: Pipeline, plan: TablePlan, pattern: ShardPattern
) -> list[tuple[Table, ShardSpec]]:
    there = _there(pipeline)
    found = sorted([*there, *acceptable(pipeline)], key=name_of)
    known = {one.name: one for one in _create(plan).shards if not one.gone}
    specs = (replace(spec_of(pattern, one), is_unread=True) for one in found)
    now = (known.get(one.name, one) for one in specs)
    return list(zip(found, now, strict=True))


def _there(pipeline: Pipeline) -> list[Table]:
    there = [table for table in tables_of(pipeline) if table.status != VANISHED]
    if not there:
        source = plan_from_json(pipeline.plan).source
        raise InvalidRequest(
            "no table of %(source)s is there any more",
            source=source,
            code="source_dropped",
        )
    return there


def acceptable(pipeline: Pipeline) -> list[Table]:
    """`not_taken`; InvalidRequest `invalid_shards` for one that is not like those that
    it reads."""
    new = not_taken(pipeline)
    if not new:
        return []
    prefetch_related_objects(new, "columns")
    taken = carried_in(pipeline.source_table.database.datasource)
    schema = schema_of(_there(pipeline)[0])
    for table in new:
        if table.pk in taken:
            raise _unlike(table, Sentence("it is synced already"))
        if table.status in NOT_SYNCED:
            raise _unlike(table, as_sentence(table.status_reason))
        if changes := diff(schema, schema_of(table)):
            raise _unlike(table, changes[0].as_sentence)
    return new


def _matching(pipeline: Pipeline, pattern: ShardPattern) -> list[Table]:
    rows = Table.objects.filter(
        ~Q(status=VANISHED),
        database__datasource=pipeline.source_table.database.datasource_id,
        database__name__startswith=pattern.before,
        name=pattern.table,
    )
    tables = list(rows.select_related("database").order_by("database__name"))
    found = select(
        [(table.database.name, table.name) for table in tables],
        include=(pattern.text,),
        exclude=tuple(pipeline.onboarding.request.get("exclude") or ()),
    )
    meant = (tables[index] for index in found.matched)
    return [t for t in meant if pattern.value_of(t.database.name, t.name)]


def spec_of(pattern: ShardPattern, table: Table) -> ShardSpec:
    value = pattern.value_of(table.database.name, table.name)
    return ShardSpec(table.database.name, table.name, value or "")


def _unlike(table: Table, why: Sentence) -> InvalidRequest:
    return InvalidRequest(
        "%(shard)s cannot be read with the other shards: %(why)s",
        shard=name_of(table),
        why=as_sentence(why),
        code="invalid_shards",
        hint=Sentence("make its columns like theirs, and discover the source again"),
    )


def _create(plan: TablePlan) -> CreateTable:
    found: CreateTable = plan.step(CreateTable)
    return found


def _joined(logs: Sequence[TableLog]) -> TableLog:
    """A value that shards gave to older rows of a column counts where all gave it."""
    first = logs[0]
    names = {name for log in logs for name in log.older}
    unlike = {n for n in names if len({log.older.get(n) for log in logs}) > 1}
    untold = unlike.union(*(log.untold for log in logs))
    return replace(
        first,
        tells_older=all(log.tells_older for log in logs),
        unread=tuple(sorted({name for log in logs for name in log.unread})),
        older={n: v for n, v in first.older.items() if n not in unlike},
        untold=tuple(sorted(untold)),
    )


def name_of(table: Table) -> str:
    return f"{table.database.name}.{table.name}"
