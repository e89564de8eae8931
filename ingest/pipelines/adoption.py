"""After a restore of the metadata database, or a rebuild of its rows by the lake's
records: rows follow the lake, table by table.

Each table is one transaction that first takes the table's fences, so that drivers of
the lost database commit nothing any more, and then reads the lake. Whoever dies between
two tables runs it again: what agrees is left alone. It must not know command lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model, Q
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models import Datasource, Table
from core.errors import InvalidRequest, SluiceError, TerminalError, TransientError
from core.jobs import ACTIVE, TERMINAL, WAITING
from core.jobs.moves import Cancelled, conclude, move_job, names_of
from core.models import Job, Lease
from core.sentences import Sentence, as_sentence
from ingest.contract.job import LOADS, REMOVE
from ingest.contract.source_positions import is_of_log
from ingest.jobs import leases
from ingest.jobs.kinds import DriverKind
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.hudi.identity import COUNT, DELETED, KEY, SEQ, drift
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.ids import last_source, last_table
from ingest.lake.place import place_at
from ingest.models import DriverIncarnation, Pipeline
from ingest.models.states import (
    APPROVED,
    FAILED,
    LOADED,
    LOADING,
    PAUSED,
    REMOVING,
    RESYNCING,
    RETIRED,
    SNAPSHOTTING,
)
from ingest.pipelines import compaction_plans, transitions
from ingest.pipelines.adoption_rules import FOLLOWED, Finding, Known, Seen, judge
from ingest.pipelines.lake_identity import planned_identity, set_buckets
from ingest.pipelines.lake_reconcile import follow_lake
from ingest.pipelines.load_job import note_loaded
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.rebuilding import ACTOR
from ingest.planning.facts import LOG, TIMESTAMP
from ingest.planning.plan import CreateTable, plan_from_json

# What the stream of a source says of a table whose row is older than it: the row takes
# over the name of its load, or the table needs a resync. The chain is right.


@dataclass(slots=True)
class Streams:
    """Each is read once: all footers of what is kept of it."""

    _read: dict[str, ChainIndex] = field(default_factory=dict)

    def of_source(self, source_id: int) -> ChainIndex:
        """TerminalError when the stream was never begun, or is broken."""
        stream = stream_of(source_id)
        if stream not in self._read:
            folder = stream_folder(settings.SLUICE_LAKE_URI, stream)
            index = ChainIndex(folder, stream)
            while index.refresh():
                pass
            self._read[stream] = index
        return self._read[stream]


def follow_stream(
    pipeline: Pipeline, position: CommitPosition, streams: Streams
) -> str:
    """Why only a new load brings a loaded table on; "" = it goes on where it is, with
    the load that the stream knows."""
    table_id = pipeline.lake_table_id
    assert table_id is not None
    if position.start and not is_of_log(position.end):
        return "it had gone over from its source's log to a cursor"
    try:
        index = streams.of_source(pipeline.source_table.database.datasource_id)
    except TerminalError as error:
        return error.message
    known = index.tables().get(table_id)
    if known is None or not known.load:
        return "the stream of its source does not know it"
    if known.cut > position.epoch_to:
        return "a load of it had begun that is not in the lake"
    if index.is_lost(table_id, position.epoch_to):
        return "segments of its stream that it had not applied are gone"
    at = position.load.at if position.load else position.end
    transitions.set_columns(pipeline, load_name=known.load, bound=known.at or at)
    return ""


WHY = "the database was restored"
_BEFORE_LOADED = "the database was restored before the table was loaded: resume it"
_JOB_ENDED = "the database was restored: ask again if it is still wanted"
_REMOVAL_ENDED = "the database was restored while it was being removed: remove it again"
PAGE = 500
_LIFT_IDS = """
SELECT CASE WHEN %(dry_run)s THEN %(known)s ELSE setval(name, %(known)s) END
FROM pg_get_serial_sequence(%(table)s, 'id') AS name
WHERE %(known)s > coalesce(pg_sequence_last_value(name::regclass), 0)
"""
_OWN_COLUMNS = frozenset({KEY, SEQ, COUNT, DELETED})


@dataclass(frozen=True, slots=True)
class Adopted:
    """table: database.table of the lake. jobs: of the backup that were ended."""

    table: str
    finding: Finding
    jobs: int = 0


def adopt(*, dry_run: bool) -> Iterator[Adopted]:
    """Every table that the database knows a pipeline of, in the order of their ids.
    With `dry_run` nothing is changed."""
    streams = Streams()
    for page in _pages():
        if not dry_run:
            yield from (_adopt(pipeline.pk, streams) for pipeline in page)
            continue
        jobs_of, live = _jobs_of(page), _live_incarnations()
        for pipeline in page:
            jobs = jobs_of.get(str(pipeline.lake_table_id), [])
            finding, _ = _look(pipeline, jobs, live)
            yield Adopted(str(pipeline.lake_table), finding, len(jobs))


def lift_ids(*, dry_run: bool) -> int:
    """No source or table that is added from now on gets an id that the lake has
    something of: of one that was added after the backup, or that is rebuilt from it.
    The highest of tables, when the database would give it out once more, else 0."""
    lake = settings.SLUICE_LAKE_URI
    _lift_ids(Datasource, last_source(lake), dry_run=dry_run)
    return _lift_ids(Table, last_table(lake), dry_run=dry_run)


def _lift_ids(model: type[Model], known: int, *, dry_run: bool) -> int:
    given: dict[str, Any] = {
        "known": known,
        "table": model._meta.db_table,
        "dry_run": dry_run,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LIFT_IDS, given)
        return known if cursor.fetchone() else 0


def require_same_lake() -> None:
    """InvalidRequest `lake_elsewhere` where tables were made in a lake at another
    address: their files are read and written there, whoever else does so."""
    lake = settings.SLUICE_LAKE_URI
    tables = Table.objects.filter(kind=Table.LAKE).exclude(path="")
    other = tables.exclude(path__startswith=f"{lake}/").order_by("pk").first()
    if other is not None:
        raise InvalidRequest(
            "the files of %(table)s are at %(path)s, and SLUICE_LAKE_URI is"
            " %(lake)s: a lake keeps its address",
            table=other,
            path=other.path,
            lake=lake,
            code="lake_elsewhere",
            hint="put the lake back in that place, and set SLUICE_LAKE_URI to it",
        )


def unknown_tables() -> list[str]:
    """Folders of the lake with a table in them that the database has no row of, nor the
    lake a record."""
    lake = place_at(settings.SLUICE_LAKE_URI)
    known = set(Table.objects.filter(kind=Table.LAKE).values_list("path", flat=True))
    found = []
    for database in sorted(lake.names()):
        if database[:1] in {"_", "."}:
            continue
        for name in sorted((lake / database).names()):
            place = lake / database / name
            if place.uri in known:
                continue
            if (place / ".hoodie" / "hoodie.properties").exists():
                found.append(f"{database}.{name}")
    return found


def _pages() -> Iterator[list[Pipeline]]:
    last = 0
    while True:
        rows = Pipeline.objects.exclude(state=RETIRED).select_related(
            "lake_table__database__datasource", "source_table__database__datasource"
        )
        rows = rows.filter(pk__gt=last, lake_table__isnull=False).order_by("pk")
        found = list(rows[:PAGE])
        if not found:
            return
        last = found[-1].pk
        yield found


def _jobs_of(found: Sequence[Pipeline]) -> dict[str, list[Job]]:
    ids = [str(pipeline.lake_table_id) for pipeline in found]
    jobs = Job.objects.filter(
        subject_id__in=ids, kind__in=[*names_of(DriverKind), REMOVE]
    )
    by_table: dict[str, list[Job]] = defaultdict(list)
    for job in jobs.exclude(state__in=TERMINAL).order_by("created_at"):
        by_table[job.subject_id].append(job)
    return by_table


def _live_incarnations() -> frozenset[str]:
    heard = Now() - timedelta(seconds=settings.SLUICE_LEASE_SECONDS)
    incarnations = DriverIncarnation.objects.filter(ended_at=None).filter(
        Q(heartbeat_at__gt=heard) | Q(heartbeat_at=None, started_at__gt=heard)
    )
    return frozenset(str(pk) for pk in incarnations.values_list("pk", flat=True))


def _is_at_work(job: Job, live: frozenset[str]) -> bool:
    if job.state not in ACTIVE:
        return False
    if job.kind == REMOVE:
        late = timezone.now() - timedelta(seconds=settings.SLUICE_LEASE_SECONDS)
        return job.progress_at is not None and job.progress_at > late
    return job.handle.get("boot", "") in live


def _look(
    pipeline: Pipeline, jobs: Sequence[Job], live: frozenset[str]
) -> tuple[Finding, LakeState | None]:
    table = pipeline.lake
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    known = Known(
        instant=table.last_commit_instant,
        epoch=table.last_commit_epoch or 0,
        position=pipeline.position,
        source=pipeline.source_table.database.datasource_id,
        columns=frozenset(c.name for c in (*create.columns, *create.kept)),
        is_busy=any(_is_at_work(job, live) for job in jobs),
        capture=pipeline.capture,
    )
    try:
        state = read_lake_table(table.path)
        seen = _seen(pipeline, state)
    except SluiceError as error:
        is_passing = isinstance(error, TransientError)
        return judge(
            known, Seen(problem=error.as_sentence, is_passing=is_passing)
        ), None
    return judge(known, seen), state


def _seen(pipeline: Pipeline, state: LakeState) -> Seen:
    done, position = state.timeline.completed_writes, state.position
    if not done:
        return Seen()
    newest = max(i.asked for i in done)
    if position is None:
        return Seen(
            problem=Sentence(
                "commit %(newest)s of the lake has no position of ours", newest=newest
            )
        )
    commit = state.newest_write
    found, planned = position.identity, planned_identity(pipeline)
    differing = drift(found, planned)
    only_buckets = found.buckets != planned.buckets and len(differing) == 1
    return Seen(
        instant=commit.instant.asked if commit else newest,
        newest=newest,
        end=position.end,
        epoch=position.epoch_to,
        source=position.source,
        columns=frozenset(
            c for c in state.columns if c not in _OWN_COLUMNS and c[:8] != "_hoodie_"
        ),
        drift=() if only_buckets else differing,
    )


def _adopt(pk: int, streams: Streams) -> Adopted:
    with transaction.atomic():
        Pipeline.objects.select_for_update().get(pk=pk)
        pipeline = Pipeline.objects.select_related(
            "lake_table__database__datasource", "source_table__database__datasource"
        ).get(pk=pk)
        jobs = _jobs_of([pipeline]).get(str(pipeline.lake_table_id), [])
        live = _live_incarnations()
        if not any(_is_at_work(job, live) for job in jobs):
            _take_fences(pipeline, must=bool(jobs))
        finding, state = _look(pipeline, jobs, live)
        if finding.status in {"busy", "unreachable"}:
            return Adopted(str(pipeline.lake_table), finding)
        if state is not None:
            _follow(pipeline, state, finding, jobs)
        if finding.status in {"missing", "needs resync"}:
            _needs_resync(pipeline, finding)
        elif why := _only_by_load(pipeline, state, streams):
            finding = replace(finding, status="needs resync", message=why)
            _needs_resync(pipeline, finding)
        for job in jobs:
            _end(job, pipeline)
        if not jobs:
            # nothing would begin the load of a table that comes back without a job
            pipeline.refresh_from_db(fields=["state", "resume_event"])
            if pipeline.state == APPROVED:
                transitions.stop(pipeline, "pause", reason=_BEFORE_LOADED, actor=ACTOR)
        return Adopted(str(pipeline.lake_table), finding, len(jobs))


def _take_fences(pipeline: Pipeline, *, must: bool) -> None:
    """Drivers of the lost database are shut out, and jobs of now are let in. `must`:
    also where the database gave out the token that stands there, for its owner's job
    is ended."""
    table_id = pipeline.lake_table_id
    assert table_id is not None
    for scope in (leases.WRITE, leases.SERVICE):
        leases.win_back(table_id, scope, must=must)


def _follow(
    pipeline: Pipeline, state: LakeState, finding: Finding, jobs: Sequence[Job]
) -> None:
    table_id, position = pipeline.lake_table_id, state.position
    assert table_id is not None
    if finding.status in FOLLOWED and position is not None:
        set_buckets(pipeline, position.identity.buckets, why=WHY)
        if finding.status == "went back":
            follow_lake(pipeline)
        _load_is_there(pipeline, state, jobs)
        pipeline.refresh_from_db(fields=["state", "resume_event"])
        due = timezone.now() if pipeline.state in LOADED else None
        due = due if pipeline.capture == TIMESTAMP else None
        changes: dict[str, Any] = {"position": finding.position, "due_at": due}
        Pipeline.objects.filter(pk=pipeline.pk).update(**changes)
        seen = _seen(pipeline, state)
        transitions.show(
            pipeline,
            last_commit_instant=seen.instant,
            last_commit_position={"to": seen.end},
            last_commit_epoch=seen.epoch,
            last_commit_at=Now(),
        )
    if pipeline.capture != LOG:
        # staged by a load that the backup knows half of: it begins anew
        Pipeline.objects.filter(pk=pipeline.pk).update(load_name="")
    compaction_plans.mirror(table_id, list(state.pending_compactions), since=None)


def _load_is_there(pipeline: Pipeline, state: LakeState, jobs: Sequence[Job]) -> None:
    """The load that the backup shows as under way, or as paused, is in the lake."""
    if pipeline.state == APPROVED:
        transitions.move(pipeline, "start_snapshot", reason=WHY, actor=ACTOR)
    is_stopped = pipeline.state in {PAUSED, FAILED} and pipeline.resume_event in {
        "resume_snapshot",
        "resume_approved",
    }
    if pipeline.state not in LOADING and not is_stopped:
        return
    assert state.position is not None
    table = pipeline.lake
    # its load had begun, and no sync writes beside one
    is_there = pipeline.capture != LOG and bool(pipeline.load_name)
    is_there = is_there and state.position.epoch_to > (table.last_commit_epoch or 0)
    if pipeline.state == RESYNCING and not is_there:
        return  # what is in the lake is from before it
    newest = max(i.asked for i in state.timeline.completed_writes)
    facts = {
        "instant": newest,
        "bound": state.position.end,
        "epoch": state.position.epoch_to,
        "consistency": pipeline.consistency or "per_chunk",
    }
    note_loaded(pipeline, facts)


def _needs_resync(pipeline: Pipeline, finding: Finding) -> None:
    reason = Sentence(
        "the database was restored, and %(why)s: resync the table, or remove it",
        why=as_sentence(finding.message),
    )
    transitions.lose_position(pipeline, reason=reason, actor=ACTOR)


def _only_by_load(pipeline: Pipeline, state: LakeState | None, streams: Streams) -> str:
    position = state.position if state is not None else None
    if pipeline.capture != LOG or position is None:
        return ""
    return follow_stream(pipeline, position, streams)


def _end(job: Job, pipeline: Pipeline) -> None:
    """A job of the backup never runs again: what it was for may be done, or wrong."""
    event, now = "cancel" if job.state in WAITING else "cancelled", timezone.now()
    move_job(job, event, reason=_JOB_ENDED, actor=ACTOR, finished_at=now)
    Lease.objects.filter(owner__startswith=f"job:{job.pk}:").update(
        owner="", expires_at=None
    )
    pipeline.refresh_from_db(fields=["state", "resume_event", "load_name"])
    if job.kind == REMOVE:
        if pipeline.state == REMOVING:
            transitions.move(
                pipeline,
                "keep",
                reason=_REMOVAL_ENDED,
                actor=ACTOR,
                resume_event="resume_catch_up",
                drop_data=False,
            )
            table = pipeline.lake_table
            has_data = bool(table and table.last_commit_instant)
            transitions.show(pipeline, is_queryable=has_data)
        return
    is_load_open = job.kind in LOADS and pipeline.state in {
        APPROVED, SNAPSHOTTING, RESYNCING,
    }  # fmt: skip
    if is_load_open:
        conclude(job, Cancelled(actor=ACTOR))
