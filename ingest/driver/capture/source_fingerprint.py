"""A sync looks whether its source is still the one that it knows.

Asks the server and the cursor's index, bounded; reads no rows. What it finds is a
warning, or stops the sync before anything is read. It must not know who keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.positions import SourceClock, from_text, latest_wall_clock, to_text
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.keys import has_unique_keys
from ingest.sources.fingerprint import (
    MOST_LATE_COUNTED,
    NOT_COUNTED,
    ServerFingerprint,
    SourceFingerprint,
    due_again,
    from_data,
    in_words,
    is_count_due,
    is_recreated,
    late_rows,
    passed_edges,
    sentences_of,
    to_data,
    values_altered,
    what_changed,
)
from ingest.sources.port import Source
from ingest.sources.statements import counted, counted_steps, rows_behind

# Clocks of writers differ; what is a minute ahead is read a minute later.
_AHEAD = timedelta(minutes=1)
# Counting more than this adds nothing.
_MOST_AHEAD = 100_000


def check_source_fingerprint(
    run: JobRun, source: Source, clock: SourceClock, *, low: str | None, is_zoned: bool
) -> None:
    """Leaves what it sees in `run.source_fingerprint`. InvalidRequest
    `source_recreated` when the table is another one under the same name: its rows may
    all be older than the position; `key_values_changed` when rows have other keys than
    the lake knows them by."""
    spec = run.spec
    before = from_data(spec.sync.source_fingerprint if spec.sync else {})
    now = source.source_fingerprint(spec.table)
    _refuse_another(spec.table, before.server, now)
    _refuse_other_keys(spec.table, before.server, now)
    kept = before.noticing(what_changed(before, now, clock.now))
    kept = replace(
        kept,
        server=now,
        clock=clock.now.isoformat(),
        is_unique=before.is_unique or has_unique_keys(source, spec.table),
    )
    if low:
        kept = count_late(source, spec.table, kept, clock, from_text(low), is_zoned)
    for sentence in sentences_of(kept):
        run.warn(sentence)
    work = spec.sync or spec.snapshot
    if now.is_subscriber and not (work and work.lag_is_chosen):
        run.warn(
            "a subscription applies what another server committed to this table: rows"
            " that it applies later than the safety lag after their cursor value can be"
            " missed. Set lag_seconds by policy, longer than it can be behind"
        )
    ahead = count_ahead(source, spec.table, ahead_of(clock, is_zoned=is_zoned))
    if ahead:
        run.warn(
            "%(ahead)s have a %(cursor)s ahead of the source's clock: no sync"
            " reads them before that time",
            ahead=_shown(ahead, _MOST_AHEAD),
            cursor=spec.table.cursor,
        )
    run.source_fingerprint = {"source_fingerprint": to_data(kept), "ahead": ahead}


def _refuse_another(
    table: TableSpec, was: ServerFingerprint, now: ServerFingerprint
) -> None:
    if is_recreated(was, now):
        name = table.at_source
        raise InvalidRequest(
            "%(name)s was dropped and created again at the source since the"
            " last sync: its rows may be older than the position, and the"
            " former table's are in the lake. Nothing was written",
            name=name,
            code="source_recreated",
            hint="resync the table: readers keep the present copy until then",
        )


def _refuse_other_keys(
    table: TableSpec, was: ServerFingerprint, now: ServerFingerprint
) -> None:
    """A row that changed since would be in the lake under its former key, too."""
    identity = {*table.key, *table.partition_by}
    altered = {c: p for c, p in values_altered(was, now).items() if c in identity}
    if not altered:
        return
    raise InvalidRequest(
        "values of %(values)s in the key of %(table)s read otherwise"
        " since an ALTER at the source: the lake has the rows under their"
        " former keys, and those that change would be there twice. Nothing"
        " was written",
        values=in_words(altered),
        table=table.at_source,
        code="key_values_changed",
        hint="resync the table: readers keep the present copy until then",
    )


def count_late(
    source: Source,
    table: TableSpec,
    source_fingerprint: SourceFingerprint,
    clock: SourceClock,
    position: datetime,
    is_zoned: bool,  # noqa: FBT001
) -> SourceFingerprint:
    edges, counts = (
        [from_text(edge) for edge in source_fingerprint.edges],
        list(source_fingerprint.counts),
    )
    went_back = bool(edges) and position < edges[-1]
    if went_back:
        # what comes there now is read
        edges, counts = [], []
    elif not is_count_due(source_fingerprint, clock.now):
        return source_fingerprint
    late, again = source_fingerprint.late, due_again(edges, position)
    if again:
        now = _counts(source, table, edges[: again + 1], is_zoned=is_zoned)
        late += late_rows(counts[:again], now)
        edges, counts = edges[again:], counts[again:]
    passed = passed_edges(edges[-1] if edges else None, position)
    if passed:
        # what is kept ends where the new steps begin, or there is none
        edges = edges[: len(counts)] + passed
        counts += _counts(source, table, passed, is_zoned=is_zoned)
    return replace(
        source_fingerprint,
        late=late,
        counted_at=clock.now.isoformat(),
        edges=tuple(to_text(edge, has_zone=is_zoned) for edge in edges),
        counts=tuple(counts),
    )


def _counts(
    source: Source, table: TableSpec, edges: Sequence[datetime], *, is_zoned: bool
) -> list[int]:
    """Rows between neighbouring edges, or NOT_COUNTED."""
    texts = [to_text(edge, has_zone=is_zoned) for edge in edges]
    steps = len(edges) - 1
    most = MOST_LATE_COUNTED * steps
    found = source.one(counted_steps(source.dialect, table, texts, most=most))
    total, *counts = (int(n) for n in found)
    return counts if total < most else [NOT_COUNTED] * steps


def ahead_of(clock: SourceClock, *, is_zoned: bool) -> str:
    """The cursor value from which on a row is ahead of the source's clock."""
    latest = clock.now if is_zoned else latest_wall_clock(clock)
    return to_text(latest + _AHEAD, has_zone=is_zoned)


def count_ahead(source: Source, table: TableSpec, limit: str) -> int:
    dialect = source.dialect
    ahead = rows_behind(dialect, table, limit)
    return int(source.one(counted(dialect, table, ahead, most=_MOST_AHEAD))[0])


def _shown(count: int, most: int) -> str:
    return (
        Sentence("%(count)s rows or more", count=f"{count:,}")
        if count >= most
        else Sentence("%(n)s rows", n=f"{count:,}")
    )
