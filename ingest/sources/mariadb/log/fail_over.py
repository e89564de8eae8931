"""Going on at another server of MariaDB that has all that was read of the former one.

Numbers decide nothing: of two servers that went apart both may have the same. So the
log of the new one is read along its transactions, from a file that begins before the
end of what was read, to the place where it has exactly that: nothing else may be before
it. What is behind it comes then, from a place in a file like any other; a server that
logged nothing of what it replicated for a while shows that by numbers that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from core.errors import TerminalError
from core.sentences import Sentence
from ingest.contract.source_positions import MariaDbLog
from ingest.sources.mariadb.log.connection import ANEW, log_lost
from ingest.sources.mariadb.log.places import (
    GTID,
    GTID_LIST,
    ROTATE,
    Gtids,
    Place,
    gtid_of,
    is_made_up,
)

Dump = Callable[[str], AbstractContextManager[Iterator[bytes]]]


@dataclass(frozen=True, slots=True)
class NewServer:
    """The server that answers now.

    here      the end of its log, with all transactions that it has
    replayed  the last of each domain that it got from others, in its log or not
    files     names of its log's, the oldest first
    events    from a file's head to the log's end, as long as they are wanted
    is_silent whether it replicates, or did, and is set up to log nothing of that
    """

    here: MariaDbLog
    replayed: Gtids
    files: tuple[str, ...]
    events: Dump
    is_silent: bool = False


def place_on(server: NewServer, read: MariaDbLog) -> MariaDbLog:
    """Behind all that was read. TerminalError `source_changed` where that server does
    not have it, or has something else before it; `log_lost`."""
    known = Gtids.of(read.gtids)
    wanted = _wanted(server, read, known)
    for file in reversed(server.files):
        if _is_before(_head(server, file), wanted):
            place = _walked(server, read, file, known, wanted)
            _require_unbroken(server, read, file, known)
            return place
    raise log_lost(
        read.in_words,
        Sentence("its oldest file is %(file)s", file=server.files[0]),
    )


def _head(server: NewServer, file: str) -> Gtids:
    """What its log had before a file."""
    head = Gtids()
    with server.events(file) as events:
        for event in events:
            if event[4] == GTID_LIST:
                head.take_list(event)
            if event[4] in {GTID_LIST, GTID}:
                break  # a log's first file may have no list
    return head


def _wanted(
    server: NewServer, read: MariaDbLog, known: Gtids
) -> dict[int, tuple[int, int]]:
    """The last of each domain, as far as its log has that domain."""
    there = Gtids.of(server.here.gtids)
    if not known.newest:
        raise _apart(server, read, Sentence("what was read had no GTIDs"))
    wanted = {}
    for domain, (source, number) in known.newest.items():
        if there.last.get((domain, source), -1) >= number:
            wanted[domain] = (source, number)
        elif domain in there.newest or (
            server.replayed.newest.get(domain) != (source, number)
        ):
            raise _apart(
                server,
                read,
                Sentence("it lacks %(gtid)s", gtid=f"{domain}-{source}-{number}"),
            )
    if not wanted:
        raise _apart(server, read, Sentence("its log has nothing of what was read"))
    if server.is_silent:
        raise _apart(server, read, Sentence("it logs nothing of what it replicates"))
    return wanted


def _is_before(head: Gtids, wanted: dict[int, tuple[int, int]]) -> bool:
    """Whether a file that begins there has the end of what was read, or begins at
    it."""
    return all(
        domain not in head.newest
        or head.newest[domain] == last
        or head.newest[domain][1] < last[1]
        for domain, last in wanted.items()
    )


def _walked(
    server: NewServer,
    read: MariaDbLog,
    file: str,
    known: Gtids,
    wanted: dict[int, tuple[int, int]],
) -> MariaDbLog:
    place = Place(replace(server.here, made=0, offset=4, gtids=""))
    place.enter(file, 4)
    with server.events(file) as events:
        for event in events:
            if event[4] == ROTATE and not is_made_up(event):
                break
            if event[4] == GTID:
                if _has(place.state, wanted):
                    break
                _require_known(server, read, [gtid_of(event)], known)
            place.take(event)
            if event[4] == GTID_LIST:
                before = [(*one, number) for one, number in place.state.last.items()]
                _require_known(server, read, before, known)
    if not _has(place.state, wanted):
        raise _apart(
            server, read, Sentence("its log has its transactions in another order")
        )
    return replace(place.here, gtids=read.gtids)


def _require_unbroken(
    server: NewServer, read: MariaDbLog, file: str, known: Gtids
) -> None:
    """TerminalError when its log lacks some of what came behind what was read: in a
    domain each transaction has the next number, or that of its own server; and it has
    all that the server replayed, of domains of which nothing was read, too."""
    last, newest = dict(known.last), dict[int, int]()
    for (domain, _), number in last.items():
        newest[domain] = max(number, newest.get(domain, 0))
    with server.events(file) as events:
        for domain, source, number in (gtid_of(e) for e in events if e[4] == GTID):
            before = last.get((domain, source), 0)
            highest = newest.get(domain, 0)  # a domain that is new begins with 1
            if number > before and number not in {before + 1, highest + 1}:
                why = Sentence(
                    "its log goes on with %(gtid)s behind number %(highest)s of that"
                    " domain",
                    gtid=f"{domain}-{source}-{number}",
                    highest=highest,
                )
                raise _apart(server, read, why)
            last[domain, source] = max(number, before)
            newest[domain] = max(number, highest)
    for domain, (source, number) in server.replayed.newest.items():
        if number > last.get((domain, source), 0):
            why = Sentence(
                "it replayed %(gtid)s, which its log does not have",
                gtid=f"{domain}-{source}-{number}",
            )
            raise _apart(server, read, why)


def _require_known(
    server: NewServer,
    read: MariaDbLog,
    found: Iterable[tuple[int, int, int]],
    known: Gtids,
) -> None:
    """TerminalError when one of them, before the end of what was read, was not read."""
    for domain, source, number in found:
        if known.last.get((domain, source), -1) < number:
            why = Sentence(
                "it has %(gtid)s before that, which was never read",
                gtid=f"{domain}-{source}-{number}",
            )
            raise _apart(server, read, why)


def _has(there: Gtids, wanted: dict[int, tuple[int, int]]) -> bool:
    return all(there.newest.get(domain) == last for domain, last in wanted.items())


def _apart(server: NewServer, read: MariaDbLog, why: str) -> TerminalError:
    remedy = (
        "bring that server back, wait until this one has all of it, or %(start_over)s"
    )
    if server.is_silent:
        remedy = (
            "bring that server back, wait until this one has all of it, set"
            " log_slave_updates = ON in its configuration, or %(start_over)s"
        )
    return TerminalError(
        "the log was read from server %(identity)s up to %(place)s, and"
        " %(now)s answers now, which does not go on from there: %(why)s; it"
        " has %(gtids)s. Nothing was read",
        identity=read.identity,
        place=read.gtids or read.encode(),
        now=server.here.identity,
        why=why,
        gtids=server.here.gtids or Sentence("no GTIDs"),
        code="source_changed",
        hint=Sentence(remedy, start_over=ANEW),
    )
