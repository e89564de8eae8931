"""What a sync remembers of its source to notice that it became another one. Pure.

A fail-over, a restore to an earlier moment, a table that was created anew, and rows
that were committed below the position leave traces that one reading alone does not
show: each sync compares its own with those of the sync before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from core.sentences import Sentence, origins_in, with_sentences
from ingest.contract.members import as_data, value_of

# Rows below the position are counted when it has passed a step, and once more so much
# later.
LATE_STEP = timedelta(minutes=5)
LATE_AFTER = timedelta(hours=1)
# Counting more rows of a step than this would burden the source.
MOST_LATE_COUNTED = 100_000
# Of a step with more: higher than any count.
NOT_COUNTED = 1 << 40
# Clocks are corrected by less than this all the time.
CLOCK_TOLERANCE = timedelta(seconds=2)
MOST_NOTICES = 5
# Of the values that read otherwise, in one sentence.
MOST_FORMS_SHOWN = 3
# Of a table with many partitions: all of them have new numbers after a TRUNCATE.
MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class ServerFingerprint:
    """Of one look at a source.

    relation  of the table: differs when it was created again; "" = not known
    is_exact  it differs for no other reason
    files     numbers of those that hold its rows, the lowest few: all are new after a
              TRUNCATE, and after much that rewrites the table; () = not known
    counter   the next number of its AUTO_INCREMENT, which a TRUNCATE sets back;
              0 = not known
    server    which server answers; "" = not known
    timeline  counts the promotions of this server's history; 0 = not known
    log       positions that only grow, by name
    columns   numbers of its columns, by name: one that was dropped and added again has
              another; {} = not known
    forms     how values of its columns read, by name and by what they are kept as: a
              label by the number of it; one that is changed changes every row's value
              without a trace in the rows; {} = not known
    is_subscriber  a subscription applies what another server committed to it
    """

    relation: str = ""
    is_exact: bool = False
    files: tuple[int, ...] = ()
    counter: int = 0
    server: str = ""
    timeline: int = 0
    log: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, int] = field(default_factory=dict)
    forms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_subscriber: bool = False


@dataclass(frozen=True, slots=True)
class SourceFingerprint:
    """What is kept from one sync to the next, as JSON on the table's row.

    clock      the source's, as text
    counted_at when rows were counted last, by the source's clock
    edges, counts  rows between neighbouring edges, which the position had just passed
               when they were counted; NOT_COUNTED = too many
    late       rows that came below the position since the load, at least
    notices    what was noticed since the load and is true until a person acts
    is_unique  the source guaranteed its key, at the load or since; False = not known
    """

    server: ServerFingerprint = ServerFingerprint()
    clock: str = ""
    counted_at: str = ""
    edges: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    late: int = 0
    notices: tuple[str, ...] = ()
    is_unique: bool = False

    def noticing(self, new: Sequence[str]) -> SourceFingerprint:
        """With the newest notices, each once."""
        all_of_them = list(dict.fromkeys([*self.notices, *new]))
        return replace(self, notices=tuple(all_of_them[-MOST_NOTICES:]))


def to_data(fingerprint: SourceFingerprint) -> dict[str, Any]:
    """The members of both beside each other, and what its notices were made of."""
    data = as_data(fingerprint)
    server = data.pop("server")
    return {**server, **data, "sentences": origins_in(fingerprint.notices)}


def from_data(data: Mapping[str, Any]) -> SourceFingerprint:
    """What is not there is not known."""
    members = with_sentences(data)
    return value_of(SourceFingerprint, {**members, "server": members})


def is_maybe_emptied(before: ServerFingerprint, now: ServerFingerprint) -> bool:
    """Whether it may be another one on the same server, or was truncated: only its
    rows can tell."""
    is_other = _is_other(before, now) and not now.is_exact
    return before.server == now.server and (is_other or _is_rewritten(before, now))


def is_recreated(before: ServerFingerprint, now: ServerFingerprint) -> bool:
    """Whether the table is certainly another one than it was, on the same server."""
    return before.server == now.server and _is_other(before, now) and now.is_exact


def _is_other(before: ServerFingerprint, now: ServerFingerprint) -> bool:
    is_known = before.relation and now.relation
    return bool(is_known) and before.relation != now.relation


def _is_rewritten(before: ServerFingerprint, now: ServerFingerprint) -> bool:
    is_known = before.files and now.files
    is_new = bool(is_known) and not {*before.files} & {*now.files}
    return is_new or 0 < now.counter < before.counter


def what_changed(
    before: SourceFingerprint, now: ServerFingerprint, clock: datetime
) -> tuple[str, ...]:
    """Sentences about what happened to the source since; () = nothing was noticed."""
    was, at = before.server, f"{clock:%Y-%m-%d %H:%M} UTC"
    found = [moved] if (moved := _of_server(was, now, at)) else []
    # a rewrite alone is not told: VACUUM FULL is one, and rows tell a TRUNCATE
    if _is_other(was, now) and not is_recreated(was, now):
        found.append(
            Sentence(
                "the table was created again, truncated or rebuilt at the source"
                " before %(at)s",
                at=at,
            )
        )
    found += _of_columns(was, now, at)
    if before.clock:
        back_by = datetime.fromisoformat(before.clock) - clock
        if back_by > CLOCK_TOLERANCE:
            found.append(
                Sentence(
                    "the source's clock went back by %(back_by)s before %(at)s",
                    back_by=back_by,
                    at=at,
                )
            )
    return tuple(found)


def _of_server(was: ServerFingerprint, now: ServerFingerprint, at: str) -> str:
    if was.server and now.server and was.server != now.server:
        return Sentence(
            "another server answers since %(at)s (%(server)s, now"
            " %(now)s): a fail-over or a restore",
            at=at,
            server=was.server,
            now=now.server,
        )
    if was.timeline and now.timeline and was.timeline != now.timeline:
        return Sentence(
            "the source was promoted or restored before %(at)s (timeline"
            " %(timeline)s, now %(now)s)",
            at=at,
            timeline=was.timeline,
            now=now.timeline,
        )
    if back := [name for name in now.log if now.log[name] < was.log.get(name, 0)]:
        return Sentence(
            "the source went back to an earlier moment before %(at)s (%(name)s"
            " %(log)s, now %(now)s): it was restored",
            at=at,
            name=back[0],
            log=was.log[back[0]],
            now=now.log[back[0]],
        )
    return ""


def _of_columns(
    was: ServerFingerprint, now: ServerFingerprint, at: str
) -> Iterator[str]:
    if again := _added_again(was, now):
        yield Sentence(
            "%(columns)s was dropped and added again before %(at)s: rows that"
            " did not change since have its former values in the lake",
            columns=", ".join(again),
            at=at,
        )
    if altered := values_altered(was, now):
        yield Sentence(
            "values of %(values)s read otherwise since an ALTER before"
            " %(at)s: rows that did not change since have the former ones in"
            " the lake until a resync",
            values=in_words(altered),
            at=at,
        )


def _added_again(before: ServerFingerprint, now: ServerFingerprint) -> list[str]:
    """Columns; of another server or table their numbers say nothing."""
    if not _is_same_table(before, now):
        return []
    numbers = before.columns
    return [n for n in now.columns if n in numbers and now.columns[n] != numbers[n]]


def values_altered(
    before: ServerFingerprint, now: ServerFingerprint
) -> dict[str, list[tuple[str, str]]]:
    """Columns of which values read otherwise although no row was written → each such
    value as it read before and reads now. What was not there before is no change."""
    return forms_altered(before.forms, now.forms) if _is_same_table(before, now) else {}


def forms_altered(
    before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]
) -> dict[str, list[tuple[str, str]]]:
    """The same of one table's columns."""
    found = {}
    for column, forms in now.items():
        former = before.get(column, {})
        pairs = [
            (former[kept], form)
            for kept, form in forms.items()
            if former.get(kept, form) != form
        ]
        if pairs:
            found[column] = pairs
    return found


def in_words(altered: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """As `values_altered` tells them: "mood (sad → blue)"."""
    return ", ".join(f"{column} ({_pairs(altered[column])})" for column in altered)


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    shown = [f"{was} → {now}" for was, now in pairs[:MOST_FORMS_SHOWN]]
    more = len(pairs) - len(shown)
    return "; ".join([*shown, f"… +{more}"] if more else shown)


def _is_same_table(before: ServerFingerprint, now: ServerFingerprint) -> bool:
    return (before.server, before.relation) == (now.server, now.relation)


def is_count_due(fingerprint: SourceFingerprint, clock: datetime) -> bool:
    if not fingerprint.counted_at:
        return True
    return abs(clock - datetime.fromisoformat(fingerprint.counted_at)) >= LATE_STEP


def sentences_of(fingerprint: SourceFingerprint) -> list[str]:
    """What the table's page says until a re-sync, or a verification without a
    difference."""
    found: list[str] = [
        Sentence("%(notice)s; verify the table", notice=notice)
        for notice in fingerprint.notices
    ]
    if fingerprint.late:
        found.append(
            Sentence(
                "at least %(late)s rows were committed with a cursor value below"
                " the position and are not in the lake as they are; verify the"
                " table and resync it",
                late=fingerprint.late,
            )
        )
    return found


def settled(
    fingerprint: SourceFingerprint, known: SourceFingerprint
) -> SourceFingerprint:
    """Both sides were found equal: nothing is left of what was `known` before they were
    read. What syncs noticed meanwhile came behind that, and stays."""
    notices = tuple(n for n in fingerprint.notices if n not in known.notices)
    return replace(
        fingerprint,
        notices=notices,
        late=max(0, fingerprint.late - known.late),
    )


def passed_edges(since: datetime | None, position: datetime) -> list[datetime]:
    """Edges of the steps between `since` and the position, of the last hour at most;
    [] when it has not passed one.

    since  where counting ended; None = nothing was counted
    """
    earliest = position - LATE_AFTER
    start = max(since or earliest, earliest)
    steps = (position - start) // LATE_STEP
    if steps <= 0:
        return []
    return [start + (position - start) * n / steps for n in range(steps + 1)]


def due_again(edges: Sequence[datetime], position: datetime) -> int:
    """How many steps, oldest first, the position passed so long ago that they are
    counted for the second time."""
    return sum(edge <= position - LATE_AFTER for edge in edges[1:])


def late_rows(before: Sequence[int], now: Sequence[int]) -> int:
    """Rows that are in a step now and were not: at least so many, because rows that
    changed since have left their step."""
    pairs = zip(before, now, strict=True)
    return sum(max(0, n - former) for former, n in pairs if n != NOT_COUNTED)
