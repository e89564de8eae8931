"""Positions of timestamp cursors, and the numbers of a table's writes.

A position is ISO text with microseconds that sorts as time:
`2026-01-31T08:00:00.000000Z` for cursors with a zone, without Z for those
without. Pure: the clock is the source's, its reading is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from core.errors import InvalidRequest, TerminalError

# A prepared transaction does not say when it began. With nothing captured yet
# there is no older bound to fall back on, so a day is assumed and said.
PREPARED_MARGIN = timedelta(days=1)
# A replica that has applied nothing for so long may apply nothing for long.
_AT_REST = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction of another session that may still commit rows.

    pid       0 for a prepared one
    since     its start; for a prepared one the time of PREPARE, which is later
    """

    pid: int
    since: datetime
    is_prepared: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Replica:
    """A server that repeats what others commit.

    replayed  the time up to which commits of those are here; None = it does not say,
              because it receives nothing, or cannot know
    may_ask   the login may ask; else `replayed` is only the clock
    follows_replica  it repeats a server that repeats another one itself, and so does
              not know whether that one is cut off
    """

    replayed: datetime | None
    may_ask: bool = True
    follows_replica: bool = False


@dataclass(frozen=True, slots=True)
class SourceClock:
    """One reading of the source, taken before any row is read.

    sees_others: False when some transaction may be open that is not told of.
    offsets: lowest and highest of the server's own time zone within a year of now,
    in seconds east of UTC.
    replica: None = a primary, which shows all open transactions itself.
    """

    now: datetime
    transactions: tuple[OpenTransaction, ...]
    sees_others: bool
    offsets: tuple[int, int] = (0, 0)
    replica: Replica | None = None

    @property
    def complete_until(self) -> datetime:
        """Commits up to here can be seen."""
        if self.replica is None or self.replica.replayed is None:
            return self.now
        return min(self.now, self.replica.replayed)


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows with a cursor ≤ `high` are all committed. held_by says what kept it
    below clock - lag.

    reach  up to where rows are read; those above `high` are read again by the next
           sync. More than `high` about once a minute: a row that changes more often
           than the lag is long would otherwise be read only when it comes to rest
    set_back  how far the clock is behind `low`: it went back since that was read
    """

    high: datetime
    reach: datetime
    held_by: OpenTransaction | None = None
    set_back: timedelta = timedelta(0)


def plan_bound(
    clock: SourceClock,
    *,
    lag_seconds: float,
    low: datetime | None,
    fraction_digits: int = 6,
    came_to_rest: bool = False,
) -> Bound:
    """min(clock, start of the oldest open transaction) - lag, never below `low`; of a
    replica, the time up to which it has replayed stands for the clock. The lag counts
    for open transactions too: a writer whose clock is behind, or cuts fractions off,
    gives rows a cursor from before its transaction began.

    fraction_digits  of a second that the cursor keeps: what is cut off makes a row
                     look older than its transaction, so the bound ends before the
                     whole unit in which that began
    came_to_rest  see that function: rows above `high` are read now, for it may not move
                  for long
    """
    until, lag = clock.complete_until, timedelta(seconds=max(0.0, lag_seconds))
    high, held = until, None
    for transaction in clock.transactions:
        # a row may carry exactly the start of its transaction
        limit = transaction.since - timedelta(microseconds=1)
        if transaction.is_prepared:
            limit = min(limit, low or transaction.since - PREPARED_MARGIN)
        if limit < high:
            high, held = limit, transaction
    high -= lag
    if fraction_digits < 6:
        high = _unit_of(high, fraction_digits) - timedelta(microseconds=1)
    set_back = timedelta(0)
    if low is not None:
        high = max(high, low)
        set_back = max(set_back, low - clock.now)
    reach = high
    if low is None or came_to_rest or _minute_of(low) != _minute_of(high):
        reach = min(until, high + lag)
    return Bound(high, max(high, reach), held, set_back)


def came_to_rest(clock: SourceClock, before: datetime | None) -> bool:
    """Whether this is the first sync after a replica has applied nothing for a while.

    before  the clock of the sync before; None = not known
    """
    rests = clock.complete_until + _AT_REST
    return before is not None and before < rests <= clock.now


def _minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _unit_of(moment: datetime, digits: int) -> datetime:
    unit = 10 ** (6 - digits)
    return moment.replace(microsecond=moment.microsecond // unit * unit)


def to_text(moment: datetime, *, has_zone: bool) -> str:
    text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0")
    return f"{text}Z" if has_zone else text


def from_text(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(
            "'%(text)s' is not a cursor position", text=text
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def later(one: str, other: str) -> str:
    """The later of two cursors' positions; "" = none yet. TerminalError
    `positions_unordered` for one with a zone and one without: local time and UTC."""
    if one == other or not one or not other:
        return one or other
    if one.endswith("Z") != other.endswith("Z"):
        raise TerminalError(
            "of the positions %(one)s and %(other)s neither is known to be"
            " before the other. Nothing was changed",
            one=one,
            other=other,
            code="positions_unordered",
            hint="the cursor has got or lost its time zone: resync",
        )
    return other if from_text(one) < from_text(other) else one


def wall_clock(clock: SourceClock) -> SourceClock:
    """The same reading for a cursor without zone, as naive time labelled UTC.

    It is unknown whether an application writes local time or UTC, so the earlier
    of both is the bound: rows come later on such servers, but none is missed. Local
    is the lowest offset of the year: with the present one the bound would stand
    before the hour that comes twice, when summer time ends west of UTC.
    """
    shift = timedelta(seconds=min(0, clock.offsets[0]))
    replica = clock.replica
    if replica is not None and replica.replayed is not None:
        replica = replace(replica, replayed=replica.replayed + shift)
    return replace(
        clock,
        now=clock.now + shift,
        transactions=tuple(
            replace(one, since=one.since + shift) for one in clock.transactions
        ),
        replica=replica,
    )


def latest_wall_clock(clock: SourceClock) -> datetime:
    """The later of UTC and the server's own time, as naive time labelled UTC."""
    return clock.now + timedelta(seconds=max(0, clock.offsets[1]))


def most_delay(clock: SourceClock) -> timedelta:
    """How much later than others the rows of a cursor without zone come, at most."""
    lowest, highest = clock.offsets
    return timedelta(seconds=max(0, highest) - min(0, lowest))


INDEX_BITS = 24
MAX_INDEX = (1 << INDEX_BITS) - 1
MAX_EPOCH = (1 << (63 - INDEX_BITS)) - 1


def seq_of(epoch: int, index: int) -> int:
    """`_sluice_seq`: numeric, monotone, independent of the source's own order.

    index 0 is a load's row, changes start at 1.
    """
    if not 0 <= epoch <= MAX_EPOCH:
        raise InvalidRequest(
            "epoch %(epoch)s does not fit into _sluice_seq", epoch=epoch
        )
    if not 0 <= index <= MAX_INDEX:
        raise InvalidRequest("index %(index)s does not fit into one epoch", index=index)
    return epoch << INDEX_BITS | index
