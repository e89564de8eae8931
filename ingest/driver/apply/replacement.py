"""All rows of a lake table by one commit of their own, proven to be what was meant.

The caller holds both leases, has taken plans off the timeline and made a savepoint.
It must not know what the rows are replaced for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import TerminalError
from ingest.contract.job import JobSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.writer import Batch, Span, commit_rows, qualified_name
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.layout import Layout
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.hudi.timeline import at_of, instant_of
from ingest.lake.place import place_at


def snapshot_of(spark: SparkSession, spec: JobSpec, *, at: str = "") -> DataFrame:
    """What readers see now, or saw at an instant; with Hudi's own columns."""
    reader = spark.newSession().read.format("hudi")
    if at:
        reader = reader.option("as.of.instant", at)
    return reader.load(place_at(spec.table.path).uri)


def bytes_of(layout: Layout) -> int:
    return sum(g.base_bytes + g.log_bytes for g in layout.groups)


def replace_rows(
    run: JobRun,
    rows: DataFrame,
    state: LakeState,
    *,
    expected: int,
    spec: JobSpec | None = None,
) -> Commit:
    """`rows` of the table itself take the place of all that is there, at the position
    where it is. They are written aside first: the write removes what it reads.

    spec  under whose identity they are written, the job's own unless given
    TerminalError `repair_differs` when they are not `expected` many (nothing is
    written then), or when readers see others afterwards.
    """
    spec, position = spec or run.spec, state.position
    assert position is not None
    area = place_at(spec.table.staging) / "repair"
    own = area / f"{spec.job_id}-{spec.attempt}"
    area.delete_all()
    try:
        columns = own_columns(rows)
        rows.select(*(F.col(f"`{c}`") for c in columns)).write.parquet(own.uri)
        data = rows.sparkSession.read.parquet(own.uri)
        before = digest_of(data, columns)
        if before[0] != expected:
            raise _changed(spec, expected, before[0])
        batch = Batch(
            data, "insert_overwrite_table", same_span(position), expected_rows=expected
        )
        run.check()
        commit = commit_rows(spec, batch, state)
        now = snapshot_of(rows.sparkSession, spec)
        require_same(spec, before, digest_of(now, columns))
    finally:
        # an attempt that comes back late leaves its successor's alone
        own.delete_all()
    return commit


def same_span(position: CommitPosition) -> Span:
    """Of rows that only lie otherwise: what their load shows is dropped behind them."""
    begin, end = position.epoch_from, position.epoch_to
    return Span(position.start, position.end, begin, end, load=position.load)


def require_replaced(
    spark: SparkSession,
    spec: JobSpec,
    commit: Commit,
    *,
    kept: Callable[[DataFrame], DataFrame],
) -> None:
    """What a former attempt committed is what `kept` leaves of the moment before it,
    whatever came later. TerminalError `repair_differs` when it is not."""
    now = snapshot_of(spark, spec, at=commit.instant.asked)
    then = kept(snapshot_of(spark, spec, at=_before(commit)))
    columns = own_columns(then)
    require_same(spec, digest_of(then, columns), digest_of(now, columns))


def _before(commit: Commit) -> str:
    """A moment before a commit began, in Hudi's digits."""
    began = at_of(commit.instant.asked)
    assert began is not None
    return instant_of(began - timedelta(milliseconds=1))


def own_columns(rows: DataFrame) -> list[str]:
    return [c for c in rows.columns if not c.startswith("_hoodie_")]


def digest_of(rows: DataFrame, columns: list[str]) -> tuple[int, int]:
    """How many rows, and a sum over all of their values."""
    hashed = F.xxhash64(*(F.col(f"`{c}`") for c in columns))
    summed = F.sum(hashed.cast("decimal(38,0)"))
    count, total = rows.agg(F.count("*"), summed).first() or (0, 0)
    return int(count), int(total or 0)


def require_same(
    spec: JobSpec, before: tuple[int, int], after: tuple[int, int]
) -> None:
    if after != before:
        raise TerminalError(
            "after its repair %(table)s has %(after)s rows, or others, where"
            " %(before)s were kept",
            table=qualified_name(spec),
            after=after[0],
            before=before[0],
            code="repair_differs",
            hint="resync the table; the savepoint holds what was there before",
        )


def _changed(spec: JobSpec, wanted: int, found: int) -> TerminalError:
    return TerminalError(
        "%(found)s rows of %(table)s would stay, but %(wanted)s keys were"
        " counted. Nothing was written",
        found=found,
        table=qualified_name(spec),
        wanted=wanted,
        code="repair_differs",
        hint="run the repair again",
    )
