"""Which control records a list of wanted tables needs: what the list says against what
the stream says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from core.sentences import Sentence
from ingest.contract.following import FollowedTable, FollowTable, Replaced
from ingest.contract.segments import Control, ControlKind, StreamTable, state_of

Known = Mapping[int, StreamTable]
Problems = Mapping[int, str]
Columns = Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AtSource:
    """What became of tables there, as `LogReader` has it."""

    replaced: Mapping[int, Replaced] = field(default_factory=dict)
    gone: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    older: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)


_NOTHING = AtSource()


def needed_controls(
    wanted: Sequence[FollowTable],
    known: Known,
    problems: Problems,
    identities: Mapping[int, str],
    new_columns: Columns = MappingProxyType({}),
    left: Columns = MappingProxyType({}),
) -> tuple[Control, ...]:
    """Once they are recorded there are none. problems: tables whose rows do not come,
    and why. identities, new_columns, left: as `LogReader` has them."""
    found: list[Control] = []
    for one in wanted:
        table_id = one.table.table_id
        problem = problems.get(table_id, "")
        identity, state = identities.get(table_id, ""), known.get(table_id)
        made = [*_of_table(one, state, problem, identity)]
        names = new_columns if any(c.kind == "cut" for c in made) else left
        found += [*made, *_left(one, state, made, names.get(table_id, ()), identity)]
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
    at_source: AtSource = _NOTHING,
    reasons: Problems = MappingProxyType({}),
) -> tuple[FollowedTable, ...]:
    """What is told of the wanted tables. reasons: of deferrals that are recorded, where
    they are remembered."""
    return tuple(
        FollowedTable(
            one.table.table_id,
            _state(one, known),
            problems.get(one.table.table_id)
            or (one.deferred if one.is_unread else _lost_before(one, known, reasons)),
            names := _undecided(one, new_columns.get(one.table.table_id, ())),
            _of(names, at_source.older.get(one.table.table_id, {})),
            at_source.replaced.get(one.table.table_id),
            at_source.gone.get(one.table.table_id, ()),
        )
        for one in wanted
    )


def _of(
    names: Sequence[str], older: Mapping[str, str | None]
) -> Mapping[str, str | None]:
    return {name: older[name] for name in names if name in older}


def _undecided(one: FollowTable, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in one.table.left_out)


def _state(one: FollowTable, known: Known) -> ControlKind | Literal[""]:
    state = known.get(one.table.table_id)
    return state.state if state else ""


def _lost_before(one: FollowTable, known: Known, reasons: Problems) -> str:
    """Who wants the table may not know that it was deferred: they died in between."""
    is_asked = one.deferred or is_new_load(one, known)
    if _state(one, known) != "deferred" or is_asked:
        return ""
    table_id = one.table.table_id
    if reason := _lacking(one, known[table_id]) or reasons.get(table_id):
        return reason
    return Sentence(
        "changes of %(table)s are missing in what was read of the source's log; resync"
        " the table",
        table=one.table.at_source,
    )


def _of_table(
    one: FollowTable, state: StreamTable | None, problem: str, identity: str
) -> Iterator[Control]:
    table_id = one.table.table_id
    cut = Control("cut", table_id, load=one.load, identity=identity)
    reason = problem or one.deferred or _missing(one, state)
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


def _left(
    one: FollowTable,
    state: StreamTable | None,
    made: Sequence[Control],
    names: Sequence[str],
    identity: str,
) -> Iterator[Control]:
    """Of a load everything that it does not read."""
    table_id = one.table.table_id
    said = ((0, control) for control in made)
    now = state_of({table_id: state} if state else {}, said).get(table_id)
    if now is None or now.state not in {"cut", "finished"}:
        return
    planned = {column.source_name for column in one.table.columns}
    new = tuple(sorted({*names} - {*now.left} - planned))
    is_renewed = bool(identity and now.identity) and identity != now.identity
    if new or is_renewed:
        yield Control("left", table_id, columns=new, identity=identity)


def _missing(one: FollowTable, state: StreamTable | None) -> str:
    """Why its plan needs another load: it has columns that were left so far."""
    if state is None or state.state not in {"cut", "finished"}:
        return ""
    if one.load and one.load != state.load:
        return ""
    return _lacking(one, state)


def _lacking(one: FollowTable, state: StreamTable) -> str:
    wanted = {column.source_name for column in one.table.columns}
    if not (lacking := ", ".join(name for name in state.left if name in wanted)):
        return ""
    return Sentence(
        "%(table)s: values of %(columns)s are missing in what was read of the source's"
        " log before the table's plan had it; resync the table",
        table=one.table.at_source,
        columns=lacking,
    )
