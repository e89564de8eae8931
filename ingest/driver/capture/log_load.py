"""The load of a table that is followed by its log: behind which place of the log it is,
and which moment its rows show.

The order is what makes it exact. The stream has a cut first, of which the follower
keeps all that comes behind. Then all that had begun at the source is waited for, and
only then comes the snapshot: so it shows everything that the log had before the cut.

Where connections share a snapshot, all rows show one moment, and what that shows is
dropped when the log is applied. Elsewhere each chunk shows a later moment than the one
before it, and all that came since the cut is applied: a key ends as its last change
leaves it, which is exact as that change has the whole row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from core.errors import StaleState, TerminalError, TransientError
from core.sentences import Sentence
from ingest.contract.job import (
    CUT_GONE,
    CUT_MISSING,
    TRANSACTIONS_OPEN,
    JobSpec,
    LogLoad,
)
from ingest.contract.segments import StreamTable
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.writer import qualified_name
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.lake.commits import LakeState
from ingest.sources.port import Moment, Source
from ingest.sources.sharded_log import shards_in

T = TypeVar("T")

# A job that waits has a place among the drivers, which others want, too.
CUT_SECONDS = 60.0
OPEN_SECONDS = 300.0
_POLL_SECONDS = 0.25


def log_of(run: JobRun) -> LogLoad | None:
    """None = the table is not followed by its log."""
    return run.spec.snapshot.log if run.spec.snapshot else None


def wait_for_cut(run: JobRun, log: LogLoad) -> int:
    """The number of the stream's cut of this load: the epoch of its rows.

    TransientError `log_not_followed` when none comes for a minute, StaleState
    `log_cut_gone` when nothing waits behind it any more."""
    folder = stream_folder(run.spec.lake, log.stream)
    index, table_id = ChainIndex(folder, log.stream), run.spec.table.table_id

    def found() -> StreamTable | None:
        while (folder / "beginning.json").exists() and index.refresh():
            run.check()
        known = index.tables().get(table_id)
        return known if known and known.load == log.load else None

    reason = "waits for the follower of the source's log to begin with this table"
    known = _waited(run, found, reason, CUT_SECONDS)
    if known is None:
        raise TransientError(
            "the follower of the source's log has not begun with %(table)s."
            " Nothing was read",
            table=qualified_name(run.spec),
            code=CUT_MISSING,
            hint="start the follower, or find out why it does not read:"
            " GET /api/v1/datasources/{name}/capture; the load goes on automatically",
        )
    if known.state != "cut":
        raise _gone(run.spec)
    return known.cut


def wait_for_shards(run: JobRun, stream: str, names: Collection[str]) -> None:
    """Until the stream has all that comes of these shards: what it has not is seen by
    who reads them behind that.

    TransientError `log_not_followed` when it has not for a minute."""
    folder, table_id = stream_folder(run.spec.lake, stream), run.spec.table.table_id
    index = ChainIndex(folder, stream)

    def is_there() -> bool:
        while (folder / "beginning.json").exists() and index.refresh():
            run.check()
        known = index.tables().get(table_id)
        if known is None or known.state not in {"cut", "finished"}:
            return False
        return {*names} <= shards_in(known.identity)

    reason = "waits for the follower of the source's log to begin with these shards"
    if _waited(run, is_there, reason, CUT_SECONDS):
        return
    raise TransientError(
        "the follower of the source's log has not begun with %(shards)s of"
        " %(table)s. Nothing was read",
        shards=", ".join(names),
        table=qualified_name(run.spec),
        code=CUT_MISSING,
        hint="start the follower, or see what keeps it from these tables at the"
        " source: GET /api/v1/datasources/{name}/capture; the job goes on"
        " automatically",
    )


def refuse_passed(spec: JobSpec, state: LakeState) -> None:
    """A table that went on from its log beyond the cut would go back by this load.
    TerminalError `stream_behind` where its syncs have higher numbers than the stream:
    their rows would win over those of the log."""
    if not state.position or state.position.epoch_to < spec.epoch:
        return
    if not behind_of(spec):
        raise _gone(spec)
    raise TerminalError(
        "the syncs of %(table)s are numbered up to %(epoch_to)s, and the"
        " stream of its source's log is at %(epoch)s only. Nothing was"
        " written",
        table=qualified_name(spec),
        epoch_to=state.position.epoch_to,
        epoch=spec.epoch,
        code="stream_behind",
        hint="remove the table and onboard it with capture `log`: that reads it again",
    )


def behind_of(spec: JobSpec) -> str:
    """The cursor of the syncs so far, where only rows behind them are read."""
    return spec.snapshot.behind if spec.snapshot else ""


def _gone(spec: JobSpec) -> StaleState:
    return StaleState(
        "nothing waits any more behind the place of the log where the load"
        " of %(table)s was to begin. Nothing was read",
        table=qualified_name(spec),
        code=CUT_GONE,
        hint="it begins again behind another place, automatically",
    )


def take_moment(run: JobRun, source: Source) -> Moment:
    """The snapshot of the whole load; where there is none, its chunks show all that the
    log had by now. TransientError `source_transactions_open` when what had begun at
    the source is not over within minutes."""
    newest = source.newest_transaction()
    holder = ""

    def is_settled() -> bool:
        nonlocal holder
        holder = source.who_is_open(newest)
        if holder:
            run.explain(
                Sentence(
                    "waits for a transaction at the source: %(holder)s", holder=holder
                )
            )
        return not holder

    if not _waited(run, is_settled, "", OPEN_SECONDS):
        raise TransientError(
            "a transaction has been open at the source for %(open_seconds)s s:"
            " %(holder)s. Before it ends no snapshot shows all that the log"
            " has, so %(table)s is not read",
            open_seconds=f"{OPEN_SECONDS:.0f}",
            holder=holder,
            table=qualified_name(run.spec),
            code=TRANSACTIONS_OPEN,
            hint="end that transaction at the source; the load goes on automatically",
        )
    return source.moment()


def _waited(
    run: JobRun, check: Callable[[], T | None], reason: str, seconds: float
) -> T | None:
    """What `check` finds; None when it finds nothing for so long."""
    until = time.monotonic() + seconds
    try:
        while not (found := check()) and time.monotonic() < until:
            if reason:
                run.explain(reason)
            run.check()
            time.sleep(_POLL_SECONDS)
        return found
    finally:
        run.explain("")
