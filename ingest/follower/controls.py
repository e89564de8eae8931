"""Which control records a list of wanted tables needs: what the list says against what
the stream says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ingest.contract.following import FollowedTable, FollowTable
from ingest.contract.segments import Control, ControlKind, StreamTable

Known = Mapping[int, StreamTable]
Problems = Mapping[int, str]


def needed_controls(
    wanted: Sequence[FollowTable],
    known: Known,
    problems: Problems,
    identities: Mapping[int, str],
) -> tuple[Control, ...]:
    """Once they are recorded there are none. problems: tables whose rows do not come,
    and why. identities: as `LogReader` has them."""
    found: list[Control] = []
    for one in wanted:
        table_id = one.table.table_id
        problem = problems.get(table_id, "")
        identity = identities.get(table_id, "")
        found += _of_table(one, known.get(table_id), problem, identity)
    kept = {one.table.table_id for one in wanted}
    for table_id, state in known.items():
        if table_id not in kept and state.state != "removed":
            found.append(Control("removed", table_id))
    return tuple(found)


def is_new_load(one: FollowTable, known: Known) -> bool:
    """Whether what came of the table so far does not matter: a load that the stream
    does not know replaces it."""
    state = known.get(one.table.table_id)
    return bool(one.load) and (state is None or state.load != one.load)


def loaded_identities(wanted: Sequence[FollowTable], known: Known) -> dict[int, str]:
    """Which tables of the source the rows are of that came so far, where those
    matter."""
    found = {}
    for one in wanted:
        state = known.get(one.table.table_id)
        if state is None or state.state == "removed" or is_new_load(one, known):
            continue
        if state.identity:
            found[one.table.table_id] = state.identity
    return found


def is_relied_on(one: FollowTable | None, state: StreamTable | None) -> bool:
    """Whether a load counts on every change that comes: without one of them only a new
    load brings the table on."""
    if one is None or state is None or state.state not in {"cut", "finished"}:
        return False
    return not one.load or state.load == one.load


def all_deferred(known: Known, reason: str) -> tuple[Control, ...]:
    """What lets no table go on by the stream: each needs a new load."""
    return tuple(
        Control("deferred", table_id, reason=reason)
        for table_id, state in known.items()
        if state.state not in {"deferred", "removed"}
    )


def followed(
    wanted: Sequence[FollowTable],
    known: Known,
    problems: Problems,
    new_columns: Mapping[int, tuple[str, ...]],
) -> tuple[FollowedTable, ...]:
    """What is told of the wanted tables."""
    return tuple(
        FollowedTable(
            one.table.table_id,
            _state(one, known),
            problems.get(one.table.table_id)
            or (one.deferred if one.is_unread else _lost_before(one, known)),
            new_columns.get(one.table.table_id, ()),
        )
        for one in wanted
    )


def _state(one: FollowTable, known: Known) -> ControlKind | Literal[""]:
    state = known.get(one.table.table_id)
    return state.state if state else ""


def _lost_before(one: FollowTable, known: Known) -> str:
    """Who wants the table may not know that it was deferred: they died in between."""
    is_asked = one.deferred or is_new_load(one, known)
    if _state(one, known) != "deferred" or is_asked:
        return ""
    return (
        f"changes of {one.table.source_schema}.{one.table.source_table} are missing in"
        " what was read of the source's log; resync the table"
    )


def _of_table(
    one: FollowTable, state: StreamTable | None, problem: str, identity: str
) -> Iterator[Control]:
    table_id = one.table.table_id
    cut = Control("cut", table_id, load=one.load, identity=identity)
    reason = problem or one.deferred
    if state is None or state.state == "removed":
        if reason:
            return  # nothing waits for it as it is
        yield Control("added", table_id)
        if one.load:
            yield cut
        return
    if reason:
        if state.state != "deferred":
            yield Control("deferred", table_id, reason=reason)
    elif one.load and one.load != state.load:
        yield cut
    elif state.state == "cut" and one.finished_at:
        yield Control("finished", table_id, at=one.finished_at)
