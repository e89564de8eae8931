"""What Django and a Spark driver say to each other: JobSpec in, JobReport out.

Versioned JSON values and the lines of the control pipe. Pure: both sides import
it, it imports neither. Secrets are never in it, only references to them.

Control pipe, one JSON object per line.
  host → driver   hello, run{spec}, cancel{job_id, mode}, secret{SecretAnswer},
                  ping{at}, stop; mode "abandon": judged, no report is wanted
  driver → host   ready{pid, versions}, accepted{job_id, attempt},
                  secret_request{ref}, report{report}, log{job_id, level, message},
                  heartbeat{at, jobs: [Progress], jobs_abandoned: [job id]}
A driver that hears nothing for `silence_seconds` halts itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from core.errors import (
    AccessDenied,
    InvalidRequest,
    NotFound,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
    said_by,
)
from core.sentences import Sentence, origins_in, sentence_of
from ingest.contract.members import TooNew, value_of
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec
from ingest.contract.written import Totals

# The kinds of jobs by name: as rows store them, and as drivers get them.
SNAPSHOT: Final = "snapshot"
RESYNC: Final = "resync"
SYNC: Final = "sync"
COMPACT: Final = "compact"
VERIFY: Final = "verify"
REPAIR: Final = "repair"
REMOVE: Final = "remove"
# no row has it: a driver is asked for it by hand
RECOVER: Final = "recover"

LOADS: Final = frozenset({SNAPSHOT, RESYNC})

VERSION = 1
# A chunk is what a stopped load may have to read again.
CHUNK_ROWS = 250_000
# A verification keeps no chunk: each one is only a turn at the source.
VERIFY_CHUNK_ROWS = 1_000_000
# References behind which the lake's object store with its key, and the database's
# clock, are asked for.
LAKE_SECRET, CLOCK = "lake", "clock"

DRIVER_DIED, OUT_OF_MEMORY = "driver_died", "out_of_memory"
JVM_ENDED = Sentence("the JVM of the driver ended")
# of the source: others give theirs back some time, so a job waits for one
CONNECTIONS_USED_UP = "source_connections_used_up"
# of a load behind a log: its follower has not marked its beginning yet, or what began
# at the source before that is not over
CUT_MISSING, TRANSACTIONS_OPEN = "log_not_followed", "source_transactions_open"
# However often an attempt ends by these, the job goes on waiting.
WAITS: Final = frozenset({CONNECTIONS_USED_UP, CUT_MISSING, TRANSACTIONS_OPEN})
# of a load behind a log: nothing waits behind its mark any more, so it needs another
CUT_GONE = "log_cut_gone"

T = TypeVar("T")

RepairAction = Literal[
    "rollback", "unschedule", "deduplicate", "clean", "savepoint", "restore",
    "resize", "drop-metadata-table", "repair", "join",
]  # fmt: skip
Outcome = Literal[
    "succeeded", "cancelled", "paused", "transient", "terminal", "invalid_request"
]
Lane = Literal["apply", "snapshot", "maintenance", "verify", "interactive"]


@dataclass(frozen=True, slots=True)
class CompactionBudget:
    """What a table's compactions may still write again.

    amplification  most bytes written per byte changed, the change's own included
    credit         bytes that changes earned and no compaction spent
    counted        what was written up to where `credit` counts
    log_age        seconds from which on a log file is merged though it costs little
    """

    amplification: float
    credit: int = 0
    counted: Totals = field(default_factory=Totals)
    log_age: float = 86_400.0


@dataclass(frozen=True, slots=True)
class LogLoad:
    """The load of a table that is followed by its log: the stream's cut of the name
    `load` has the number that its rows get (`ingest.contract.segments`)."""

    stream: str
    load: str


@dataclass(frozen=True, slots=True)
class SnapshotWork:
    """kinds snapshot and resync: chunks → staged Parquet → one commit. The lag is that
    of the syncs behind it. accept_empty: it was said that the source may be empty.
    load: its name, which all of its jobs and attempts share; `log` has its own.
    behind: of a table that was synced by this cursor and follows its log from the cut
    on: only rows behind the lake's position are read, and nothing is replaced; "" = all
    are. position: where its cursor goes on, which counts where the lake's newest commit
    is one of a log."""

    chunk_rows: int = CHUNK_ROWS
    lag_seconds: float = 0.0
    lag_is_chosen: bool = False
    accept_empty: bool = False
    log: LogLoad | None = None
    load: str = ""
    behind: str = ""
    position: str = ""


@dataclass(frozen=True, slots=True)
class SyncWork:
    """kind sync: one timestamp sync (what changed → staged → one commit).

    low           cursor bound of the last sync as text; None = everything. The lake's
                  own counts where it is further
    lag_seconds   safety lag behind the source's clock
    lag_is_chosen  see ingest.driver.capture.reading
    source_fingerprint  see ingest.sources.fingerprint
    behind        the last epoch that the services know of in the table: a lake that
                  is at an older one was taken back meanwhile; 0 = not known
    instant       of the commit that brought it; "" = not known. Behind a restore
                  another one may have the same epoch
    added, known, stops_at_new  see ingest.driver.capture.added_columns
    stream        which the table has followed so far; "" = it is synced by its cursor
    """

    low: str | None
    lag_seconds: float
    max_rows: int = 5_000_000
    behind: int = 0
    instant: str = ""
    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    stops_at_new: bool = False
    lag_is_chosen: bool = False
    source_fingerprint: Mapping[str, Any] = field(default_factory=dict)
    stream: str = ""


@dataclass(frozen=True, slots=True)
class CompactWork:
    """kind compact: execute exactly these instants, or schedule one if empty."""

    instants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyWork:
    """kind verify: the source against the lake, both read once.

    position  as the services know it; the lake's own may be older (empty syncs)
    stream    of a table that follows a log; "" = it does not
    rows_per_second  at most so many rows of the source on average; 0 = no limit
    source_fingerprint  what syncs had noticed of the source when it began
    """

    position: str = ""
    stream: str = ""
    chunk_rows: int = VERIFY_CHUNK_ROWS
    rows_per_second: int = 0
    source_fingerprint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepairWork:
    """kind repair, under both leases.

    rollback     undo what is inflight; a plan stays planned
    unschedule   take a planned compaction off the timeline; `replan`: plan anew
    deduplicate  one row per key, by one commit that replaces the table
    clean        old file versions, instants and savepoints go
    savepoint    keep what the table is now; restore: go back to one (`instant`)
    resize       the same rows in `buckets` buckets, by one commit
    drop-metadata-table  one that another writer made and ours do not keep up
    repair       rows of the keys that `verification` found to differ are read again
    join         `shards`, by their names at the source, are read for the first time
    instant      what it is about; "" = every one that it can be about
    stream       of the log that the table follows, from which it gets what came since
    dry_run      look and count only (deduplicate)
    """

    action: RepairAction
    instant: str = ""
    replan: bool = False
    dry_run: bool = False
    buckets: int = 0
    stream: str = ""
    verification: str = ""
    shards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """A driver for one job alone: heap (`4g`) and cores, of executors on a cluster."""

    memory: str
    cores: int


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job for a driver, which refuses a `kind` that it does not know.

    `epoch`: of a load, which its driver finds out; `lock_service`: where
    tables with a shared lock find it; `keep_seconds`: cleaning leaves what queries need
    that began so long ago; `budget`: of compactions nobody asked for; None = none."""

    job_id: str
    attempt: int
    kind: str
    lane: Lane
    lake: str
    table: TableSpec
    fence: FenceSpec
    source: SourceSpec | None = None
    epoch: int = 0
    compact_after: int = 10
    budget: CompactionBudget | None = None
    lock_service: str = ""
    keep_seconds: float = 1800.0
    snapshot: SnapshotWork | None = None
    sync: SyncWork | None = None
    compact: CompactWork | None = None
    verify: VerifyWork | None = None
    repair: RepairWork | None = None
    driver: DriverSpec | None = None
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is. total None = not known yet (never shown as 0). still: seconds
    since something came of it; None = nothing has in this attempt. sentences: what the
    reason was made of."""

    job_id: str
    attempt: int
    phase: str
    done: int = 0
    total: int | None = None
    unit: str = "rows"
    reason: str = ""
    still: float | None = None
    sentences: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorFact:
    """sentences: what message and hint were made of, by their text."""

    code: str
    message: str
    hint: str = ""
    sentences: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecretAnswer:
    """A source's password and where it may go; or, with `error`, why it is not given.

    host       what the addresses were looked up for; "" = not looked up
    addresses  of the host, all of them allowed by the network policy
    authorities  PEM file of the authorities that tls 'verify' trusts; "" = the
               system's
    outcome    of the job that has to end with `error`
    """

    ref: str
    value: str = field(default="", repr=False)
    host: str = ""
    addresses: tuple[str, ...] = ()
    authorities: str = ""
    outcome: Outcome = "succeeded"
    error: ErrorFact | None = None


@dataclass(frozen=True, slots=True)
class JobReport:
    """How it ended. `facts` is what the services need to go on, by kind.

    snapshot/resync  rows, bytes, chunks, instant, consistency ("snapshot" |
                     "per_chunk"), bound (capture starts here), epoch,
                     lossy {column: count}
    sync             rows, epoch | None, instant | None, position {from, to},
                     held_back {pid, age_seconds} | None, null_cursors (rows
                     whose cursor is NULL or is below every position),
                     more (True: cut at max_rows, run again), added, unknown_columns,
                     source_fingerprint, ahead
    compact          instants, seconds
    verify           those of ingest.maintenance.verdict
    repair           action, rolled_back, unscheduled (instants); deduplicate: found,
                     see ingest.maintenance.duplicates, and instant, savepoint; resize
                     and restore: buckets, how many it has from now on; restore
                     also misses and reaches_back, what its source said (None: nothing)
    all              pending_compactions; of writes has_columns: the spec's are there

    `sentences` is what the warnings were made of.
    """

    job_id: str
    attempt: int
    outcome: Outcome
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: ErrorFact | None = None
    v: int = VERSION
    sentences: Mapping[str, Any] = field(default_factory=dict)


def spec_from(data: Mapping[str, Any]) -> JobSpec:
    """A JobSpec from decoded JSON; InvalidRequest when version or shape differ."""
    return _versioned(JobSpec, data, Sentence("job spec"))


def report_from(data: Mapping[str, Any]) -> JobReport:
    """A JobReport from decoded JSON; InvalidRequest when version or shape differ."""
    return _versioned(JobReport, data, Sentence("job report"))


def outcome_of(error: SluiceError) -> Outcome:
    """Whose turn it is after this error."""
    if isinstance(error, (TransientError, StaleState)):
        return "transient"
    if isinstance(error, (InvalidRequest, NotFound, AccessDenied)):
        return "invalid_request"
    return "terminal"


def fact_of(error: SluiceError) -> ErrorFact:
    told = error.message, error.hint
    return ErrorFact(error.code, *told, origins_in(told))


def error_from(outcome: Outcome, fact: ErrorFact) -> SluiceError:
    """The reverse of `fact_of` and `outcome_of`, on the other side."""
    kinds: dict[str, type[SluiceError]] = {
        "transient": TransientError,
        "invalid_request": InvalidRequest,
    }
    kind = kinds.get(outcome, TerminalError)
    message, hint = (
        sentence_of(text, fact.sentences) for text in (fact.message, fact.hint)
    )
    return kind(message, code=fact.code, hint=hint)


def _versioned(kind: type[T], data: Mapping[str, Any], what: Sentence) -> T:
    try:
        return value_of(kind, data, newest=VERSION)
    except TooNew as error:
        raise InvalidRequest(
            "%(what)s has %(why)s",
            what=what,
            why=said_by(error),
            hint="restart the driver and the workers with the same release",
        ) from error
    except ValueError as error:
        raise InvalidRequest(
            "malformed %(what)s: %(why)s", what=what, why=error
        ) from error
