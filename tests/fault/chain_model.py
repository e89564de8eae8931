"""A source, its log's readers, loads, apply, collection, operators and their database,
over the real chain in a lake of memory: one schedule per seed, in one thread.

Each actor is a greenlet that gives way before every operation on a file, so any two
interleave anywhere, may be stopped for long, and die at any line. What is checked:

- the source is never told more than what is durable;
- a table that is shown as complete equals the source at the end of the segment that it
  has applied;
- only tables that gave their segments up, or of which changes are missing, are loaded
  again;
- when all comes to rest, the lake equals the source.

`broken` names a rule that is left out: then some seed fails (`RULES`).
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from core.errors import SluiceError, StaleState, TerminalError
from ingest.contract import segments
from ingest.contract.segments import Control, Segment, StreamTable, part_of, state_of
from ingest.lake import chain, folding, folds
from ingest.lake.port import Place
from tests.fault.chain_world import (
    DECODE,
    STREAM,
    TABLES,
    Commit,
    Request,
    Rows,
    Violation,
    World,
)


def reader(world: World) -> None:
    """Follows the log: from its own segment on, until another takes over."""
    world.facts["readers"] += 1
    name = f"w{world.facts['readers']}"
    if "orphans" in world.broken:
        for other in world.folder.names():
            if other.endswith(".part"):
                (world.folder / other).delete()
    gone, at = world.source.gone, end_of_stream(world)
    gap = chain.Gap(str(at), lambda: all_deferred(world)) if gone > at else None
    writer = chain.take_over(
        world.folder,
        stream=STREAM,
        writer=name,
        server="x",
        begin=str(gone),
        gap=gap,
    )
    chain.remove_orphans(world.folder)
    known = read_all(world).tables()
    while True:
        world.pause()
        begin, end = int(writer.last.end), len(world.source.log)
        if begin < world.source.gone:
            return
        end = min(end, begin + world.rng.randint(0, 3))
        # what it was told of is forgotten
        read = [n for n in range(begin + 1, end + 1) if n > world.source.told]
        if "told" in world.broken:
            world.source.told = max(world.source.told, end)
        asked = [r for r in world.requests if not r.number and is_due(r, known)]
        if not (read or asked) and world.rng.random() < 0.7 and not world.is_calm:
            continue
        made = append(world, writer, read, end, [r.control for r in asked])
        world.pause()
        if "told" not in world.broken:
            world.tell(end)
        for request in asked:
            request.number = made.number
        known = state_of(known, ((made.number, r.control) for r in asked))
        if world.is_calm and end == len(world.source.log):
            return


def read_all(world: World) -> chain.ChainIndex:
    index = chain.ChainIndex(world.folder, STREAM)
    while index.refresh():
        pass
    return index


def end_of_stream(world: World) -> int:
    newest = read_all(world).newest
    return int(newest.end) if newest else 0


def all_deferred(world: World) -> list[Control]:
    if "anew" in world.broken:
        return []
    return [Control("deferred", table, reason="a gap") for table in TABLES]


def is_due(request: Request, known: Mapping[int, StreamTable]) -> bool:
    """A load is complete only when the stream counts on it still."""
    wanted = request.control
    state = known.get(wanted.table_id, StreamTable())
    return wanted.kind != "finished" or (state.state, state.load) == (
        "cut",
        wanted.load,
    )


def append(
    world: World,
    writer: chain.ChainWriter,
    read: list[int],
    end: int,
    controls: list[Control],
) -> Segment:
    parts, body = [], b""
    for table in TABLES:
        places = [n for n in read if world.source.log[n - 1][0] == table]
        if not places:
            continue
        data = ",".join(map(str, places)).encode()
        is_large = world.rng.random() < 0.2
        name = writer.part_name(table) if is_large else ""
        at = 0 if is_large else chain.BODY_AT + len(body)
        parts.append(
            part_of(
                table, data, rows=len(places), schema_version=1, offset=at, file=name
            )
        )
        if is_large:
            (world.folder / name).create(data)
        else:
            body += data
    return writer.append(end=str(end), parts=parts, body=body, controls=controls)


def ask(world: World, control: Control) -> Request:
    request = Request(control)
    world.requests.append(request)
    return request


def load(world: World, table: int) -> None:
    """A table as the source shows it, under the number of a cut."""
    world.database.loading.add(table)
    world.fence[table] += 1
    token = world.fence[table]
    number = world.database.cuts.get(table, 0)
    if not number:
        if "cut" in world.broken:
            number = 1 + world.newest()
        else:
            request = ask(world, Control("cut", table, load=str(token)))
            while not request.number:
                if world.is_calm:
                    reader(world)
                world.pause()
            number = request.number
        world.database.cuts[table] = number
    before = len(world.source.log)
    while any(n <= before for n in world.source.unseen) and "seen" not in world.broken:
        world.pause()
    rows = world.source.fold(table, world.source.shown())
    at = len(world.source.log)
    world.pause()
    if token != world.fence[table]:
        return
    world.lake[table] = Commit(rows, number, 0 if "at" in world.broken else at)
    world.database.cuts.pop(table, None)
    ask(world, Control("finished", table, load=str(token), at=str(at)))
    world.database.loading.discard(table)
    world.facts["loads"] += 1


def applier(world: World) -> None:
    """A driver: commits what waits of each table that it holds."""
    world.database.driver += 1
    me = world.database.driver
    held: dict[int, int] = {}
    index = chain.ChainIndex(world.folder, STREAM)
    while True:
        world.pause()
        for table in TABLES:
            is_mine = me == world.database.driver
            is_busy = table in world.database.loading | world.database.paused
            if held.get(table) != world.fence[table] or table not in held:
                if not is_mine or is_busy:
                    continue
                world.fence[table] += 1
                held[table] = world.fence[table]
            if not is_busy and table in world.lake:
                apply(world, index, table, held[table])
        if world.is_calm:
            return


def apply(world: World, index: chain.ChainIndex, table: int, token: int) -> None:
    before = world.lake[table]
    index.refresh()
    if index.newest is None or index.is_ahead(before.epoch):
        return
    state = index.tables().get(table, StreamTable())
    is_loading = table in world.database.loading
    if is_loading and state.state == "cut" and before.epoch < state.cut:
        return
    is_back = before.epoch < state.cut and "back" not in world.broken
    is_missing = state.state == "deferred" or is_back
    if is_missing or index.is_lost(table, before.epoch):
        if token != world.fence[table] or before is not world.lake[table]:
            return  # what is lost is of a commit that another one replaced
        world.facts["missing" if is_missing else "lost"] += 1
        if not is_missing and table not in world.excused:
            raise Violation(f"table {table} lost its segments at {before.epoch}")
        begin_load(world, table)
        return
    try:
        rows = fold(world, index, table, before)
    except StaleState:
        return  # collected meanwhile; the next look says whether it is lost
    newest = index.newest
    world.pause()
    is_mine = token == world.fence[table] or "fence" in world.broken
    if not is_mine or newest.number <= before.epoch:
        return
    if world.lake[table] is not before:
        raise Violation(f"table {table} goes on from {before}, but was changed since")
    world.lake[table] = Commit(rows, newest.number, before.at)
    world.remembered[table] = newest.number
    world.facts["commits"] += 1
    if int(newest.end) >= before.at:
        world.facts["complete"] += 1
        expected = world.source.fold(table, [*range(1, int(newest.end) + 1)])
        if rows != expected:
            raise Violation(f"table {table} at {newest.end}: {rows}, source {expected}")


def begin_load(world: World, table: int) -> None:
    if table not in world.database.loading:
        world.start(lambda w: load(w, table))
        world.database.loading.add(table)
        world.database.cuts.pop(table, None)


def read_since(
    index: chain.ChainIndex, table_id: int, *, after: int
) -> Iterator[bytes]:
    """The table's parts behind segment `after`, in order, as a reader takes them: what
    came counts only when all came."""
    numbers = index.about(table_id, after=after)
    whole = [number for number in numbers if not index.is_folded(number)]
    for number in numbers:
        segment = index.segment(table_id, number)
        if segment is None:
            break
        for part in segment.parts_of(table_id):
            try:
                yield chain.read_rows(index.folder, segment, part)
            except TerminalError:
                for one in whole[:1]:
                    chain.require_kept(index.folder, one)
                chain.require_kept(index.folder, number, table_id=table_id)
                raise
    # what was read may be the file of a stopped writer in place of a collected one
    for one in whole[:1]:
        chain.require_kept(index.folder, one)


def fold(world: World, index: chain.ChainIndex, table: int, before: Commit) -> Rows:
    rows, after = before.rows, before.epoch
    if "remembered" in world.broken:
        after = max(after, world.remembered[table])
    for data in read_since(index, table, after=after):
        rows = world.source.fold(table, [*map(int, data.split(b","))], rows)
    return rows


def collector(world: World) -> None:
    index = chain.ChainIndex(world.folder, STREAM)
    folder = folding.Folder(index)
    while True:
        index.refresh()
        kept = {table: point.epoch for table, point in world.savepoints.items()}
        applied = {table: commit.epoch for table, commit in world.lake.items()}
        needs = index.needs(applied, {} if "kept" in world.broken else kept)
        if "needed" in world.broken:
            needs = {}
        end = _newest(index)
        world.pause()
        chain.collect(index, first=index.needed_from(needs), needs=needs)
        world.pause()
        index.refresh()
        while folder.fold(
            needs, before=_newest(index) if "asked" in world.broken else end
        ):
            world.facts["folds"] += 1
            index.refresh()
        if world.rng.random() < 0.3:
            chain.remove_orphans(world.folder)
        if world.is_calm:
            return
        world.pause()


def _newest(index: chain.ChainIndex) -> int:
    return index.newest.number if index.newest else 0


def act(world: World) -> None:
    """Something that operators and machines do."""
    rng, table = world.rng, world.rng.choice(TABLES)
    kind = rng.choice(
        ("pause", "resume", "database", "defer", "gap")
        + ("save",) * 4
        + ("drop",) * 2
        + ("restore",) * 6
    )
    commit = world.lake.get(table)
    if kind == "save" and commit:
        world.savepoints[table] = commit
    elif kind == "drop" and table in world.savepoints:
        world.dropped[table] = world.savepoints.pop(table)
    elif kind == "restore":
        point = world.savepoints.get(table) or world.dropped.get(table)
        if point is None:
            return
        if table not in world.savepoints:
            world.excused.add(table)
        world.fence[table] += 1
        world.lake[table] = point
    elif kind == "pause" and rng.random() < 0.3:
        world.database.paused.add(table)
    elif kind == "resume":
        world.database.paused.discard(table)
    elif kind == "defer" and rng.random() < 0.3:
        ask(world, Control("deferred", table, reason="changes are missing"))
    elif kind == "gap" and rng.random() < 0.2:
        world.source.gone = world.source.told = len(world.source.log)
    elif kind == "database" and rng.random() < 0.2:
        world.excused |= set(TABLES)
        world.database, world.backup = world.backup, world.database.copy()
    world.facts[kind] += 1


def fail_power(world: World) -> None:
    for path in world.store.volatile:
        world.store.files.pop(path, None)
    world.store.volatile.clear()
    world.actors.clear()
    world.stopped.clear()
    world.facts["power"] += 1


def step(world: World) -> None:
    rng = world.rng
    what = rng.random()
    if what < 0.10:
        world.source.write(rng)
    elif what < 0.16 and world.source.unseen:
        world.source.unseen.discard(rng.choice(sorted(world.source.unseen)))
    elif what < 0.21:
        act(world)
    elif what < 0.23 and world.actors:
        world.stopped[rng.choice(world.actors)] = rng.randint(5, 60)
    elif what < 0.24 and world.actors:
        world.actors.remove(rng.choice(world.actors))
    elif what < 0.242:
        fail_power(world)
    elif what < 0.28 and len(world.actors) < 6:
        world.start(rng.choice((reader, applier, collector)))
    else:
        run_one(world)


def run_one(world: World) -> None:
    for actor, left in list(world.stopped.items()):
        world.stopped[actor] = left - 1
        if left <= 0:
            del world.stopped[actor]
    able = [one for one in world.actors if one not in world.stopped]
    if able:
        one = world.rng.choice(able)
        one.switch()
        if one.dead:
            world.actors.remove(one)


def come_to_rest(world: World) -> None:
    """All actors are dead, and others do what is left."""
    world.is_calm = True
    world.actors.clear()
    world.stopped.clear()
    world.source.unseen.clear()
    world.requests.clear()
    world.database.paused.clear()
    reader(world)
    for _ in range(3):
        for table in TABLES:
            if table not in world.lake or table in world.database.loading:
                load(world, table)
        collector(world)
        reader(world)
        applier(world)
        world.actors.clear()
    for table in TABLES:
        commit = world.lake[table]
        expected = world.source.fold(table, [*range(1, len(world.source.log) + 1)])
        if commit.rows != expected:
            raise Violation(f"table {table} has {commit.rows}, source {expected}")


# What is left out, by name: of the actors above, or of the chain itself.
RULES = (
    "overwrite",  # a segment is made only where none is
    "race",  # who finds the next number taken ends
    "collected",  # a number that was made is looked at again: was it collected?
    "claim",  # who takes over makes a segment first, an empty one
    "orphans",  # files beside a segment go by their number, never by their writer
    "order",  # the beginning moves on before segments go
    "needed",  # what the slowest table needs stays
    "kept",  # and what a kept savepoint needs
    "asked",  # what came since it was asked what is needed is not folded
    "unnamed",  # a fold that may be named yet is no orphan
    "gap",  # a table whose segments are gone is loaded again
    "told",  # the source is told what is durable, no more
    "cut",  # a load has the number of a record in the chain
    "seen",  # and reads when all before that can be seen at the source
    "at",  # it is complete when all that it may show is applied
    "back",  # a table that went back behind its newest load does not go on
    "anew",  # who passes over a gap lets no table go on
    "fence",  # only the holder of a table's fence commits
    "remembered",  # what is applied is what the newest commit says
)


def go_on(writer: chain.ChainWriter, **more: object) -> Segment:
    while True:
        try:
            return APPEND(writer, **more)
        except StaleState:
            writer.last = replace(writer.last, number=writer.next_number)


def without_a_look(folder: Place, segment: Segment, body: bytes) -> bool:
    content = segments.encode_segment(segment, body)
    return (folder / chain.segment_name(segment.number)).create(content)


def without_a_claim(folder: Place, **more: Any) -> chain.ChainWriter:
    start = chain.read_beginning(folder).number
    number = chain.newest_number(folder, start=start)
    last = chain.read_segment(folder, number)
    if last is None or more["gap"]:
        return TAKE_OVER(folder, **more)
    return chain.ChainWriter(folder, replace(last, writer=more["writer"]))


def deleting_first(index: chain.ChainIndex, *, first: int, **more: Any) -> None:
    for name in index.files_before(first):
        (index.folder / name).delete()
    COLLECT(index, first=first, **more)


def with_all_unnamed(folder: Place) -> list[str]:
    named = chain.read_beginning(folder).folds
    names = {one.name_for(table) for table, many in named.items() for one in many}
    for name in folder.names():
        if name.endswith(".fold") and name not in names:
            (folder / name).delete()
    return ORPHANS(folder)


APPEND, TAKE_OVER, COLLECT = chain.ChainWriter.append, chain.take_over, chain.collect
ORPHANS = chain.remove_orphans
PATCHES = {
    "race": (chain.ChainWriter, "append", go_on),
    "collected": (chain, "_make", without_a_look),
    "claim": (chain, "take_over", without_a_claim),
    "order": (chain, "collect", deleting_first),
    "unnamed": (chain, "remove_orphans", with_all_unnamed),
    "gap": (chain.ChainIndex, "is_lost", lambda *_: False),
}


@contextmanager
def rules_left_out(broken: frozenset[str]) -> Iterator[None]:
    with ExitStack() as stack:
        for rule in broken & PATCHES.keys():
            stack.enter_context(patch.object(*PATCHES[rule]))
        # segments never change, so each is decoded once
        stack.enter_context(patch.object(chain, "decode_segment", DECODE))
        stack.enter_context(patch.object(chain, "decode_beginning", DECODE_BEGINNING))
        stack.enter_context(patch.object(folds, "decode_fold", DECODE_FOLD))
        # runs of two, of which half is needed
        stack.enter_context(patch.object(folding, "LEAST_SEGMENTS", 2))
        yield


DECODE_FOLD = lru_cache(20_000)(segments.decode_fold)
DECODE_BEGINNING = lru_cache(20_000)(segments.decode_beginning)


def run(seed: int, *, broken: frozenset[str] = frozenset(), steps: int = 600) -> World:
    """One schedule. Violation when a rule did not hold."""
    world = World(seed, broken)
    for table in TABLES:
        ask(world, Control("added", table))
        world.start(lambda w, table=table: load(w, table))
    for work in (reader, applier, collector):
        world.start(work)
    with rules_left_out(broken):
        for _ in range(steps):
            step(world)
        try:
            come_to_rest(world)
        except SluiceError as error:
            raise Violation(f"{error.code}: {error}") from error
    return world


def first_failure(
    seeds: range, *, broken: frozenset[str] = frozenset()
) -> tuple[int, str] | None:
    """The seed of it, and what happened."""
    for seed in seeds:
        try:
            run(seed, broken=broken)
        except Violation as error:
            return seed, str(error)
    return None


def campaign(first: int, count: int, *, block: int = 2_000) -> dict[str, object]:
    """So many schedules, on all cores; the seeds that failed, which are to be none."""
    starts = range(first, first + count, block)
    seeds = [range(one, min(one + block, first + count)) for one in starts]
    with multiprocessing.get_context("spawn").Pool() as pool:
        found = [one for one in pool.imap_unordered(first_failure, seeds) if one]
    facts: dict[str, object] = {"chain": count, "seed": first}
    if found:
        facts["error"] = "; ".join(f"seed {seed}: {what}" for seed, what in found[:5])
    return facts


if __name__ == "__main__":
    print(campaign(0, int(sys.argv[1])))  # noqa: T201
