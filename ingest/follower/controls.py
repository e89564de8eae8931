"""Which control records a list of wanted tables needs: what the list says against what
the stream says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ingest.contract.following import FollowedTable, FollowTable
from ingest.contract.segments import Control, StreamTable

Known = Mapping[int, StreamTable]
Problems = Mapping[int, str]


def needed_controls(
    wanted: Sequence[FollowTable], known: Known, problems: Problems
) -> tuple[Control, ...]:
    """Once they are recorded there are none. problems: tables whose rows do not come,
    and why."""
    found: list[Control] = []
    for one in wanted:
        table_id = one.table.table_id
        problem = problems.get(table_id, "")
        found += _of_table(one, known.get(table_id), problem)
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


def followed(
    wanted: Sequence[FollowTable],
    known: Known,
    problems: Problems,
    new_columns: Mapping[int, tuple[str, ...]],
) -> tuple[FollowedTable, ...]:
    """What is told of the wanted tables."""
    return tuple(
        FollowedTable(
            table_id,
            known[table_id].state if table_id in known else "",
            problems.get(table_id, ""),
            new_columns.get(table_id, ()),
        )
        for table_id in (one.table.table_id for one in wanted)
    )


def _of_table(
    one: FollowTable, state: StreamTable | None, problem: str
) -> Iterator[Control]:
    table_id = one.table.table_id
    reason = problem or one.deferred
    if state is None or state.state == "removed":
        if reason:
            return  # nothing waits for it as it is
        yield Control("added", table_id)
        if one.load:
            yield Control("cut", table_id, load=one.load)
        return
    if reason:
        if state.state != "deferred":
            yield Control("deferred", table_id, reason=reason)
    elif one.load and one.load != state.load:
        yield Control("cut", table_id, load=one.load)
    elif state.state == "cut" and one.finished_at:
        yield Control("finished", table_id, at=one.finished_at)
    elif state.state == "deferred" and one.goes_on:
        yield Control("restored", table_id, epoch=one.goes_on)
