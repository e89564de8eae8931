"""Whether another server of MariaDB goes on from where the former one was read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from core.errors import TerminalError
from ingest.contract.source_positions import MariaDbLog
from ingest.sources.mariadb.log import opening
from ingest.sources.mariadb.log.fail_over import NewServer, place_on
from ingest.sources.mariadb.log.places import Gtids
from tests.unit.ingest.test_binlog_places import FORMAT, GTID, GTIDS, ROTATE, XID, event

READ = MariaDbLog(1, "a", "a.", 7, 50, 800, "0-3-4,0-1-7")
HERE = MariaDbLog(2, "b", "b.", 2, 0, 900, "0-3-4,0-1-7,0-2-8")


def listed(*gtids: str) -> bytes:
    body = struct.pack("<I", len(gtids))
    for gtid in gtids:
        body += struct.pack("<IIQ", *map(int, gtid.split("-")))
    return event(GTIDS, end=300, body=body)


def log_of(*gtids: str, head: tuple[str, ...] = ()) -> list[bytes]:
    """A file with these transactions, each of 100 bytes."""
    events, end = [event(FORMAT, end=256, when=60), listed(*head)], 300
    for gtid in gtids:
        domain, server, number = map(int, gtid.split("-"))
        one = event(GTID, end=end + 40, body=struct.pack("<QI", number, domain))
        events += [one[:5] + struct.pack("<I", server) + one[9:]]
        end += 100
        events.append(event(XID, end=end))
    return [*events, event(ROTATE, end=end + 40)]


def server_with(
    *files: list[bytes],
    here: str = HERE.gtids,
    replayed: str = "",
    is_silent: bool = False,
) -> NewServer:
    known = {f"b.{n:06}": one for n, one in enumerate(files, start=1)}

    @contextmanager
    def events(file: str) -> Iterator[Iterator[bytes]]:
        later = [one for name, one in known.items() if name >= file]
        yield (event for one in later for event in one)

    there = replace(HERE, gtids=here)
    return NewServer(there, Gtids.of(replayed), tuple(known), events, is_silent)


OLD = log_of("0-3-4", "0-1-5", "0-1-6")
MIDDLE = log_of("0-1-7", "0-2-8", head=("0-3-4", "0-1-6"))
NEW = log_of("0-2-9", head=("0-3-4", "0-1-7", "0-2-8"))


@pytest.mark.parametrize(
    ("files", "place"),
    [
        # in the middle of a file, with others around it
        ([OLD, MIDDLE, NEW], ("b.000002", 400)),
        # at the end of a file, and of the log
        ([OLD, log_of("0-1-7", head=("0-3-4", "0-1-6"))], ("b.000002", 400)),
        ([log_of("0-3-4", "0-1-7")], ("b.000001", 500)),
        # another domain began behind it
        ([log_of("0-3-4", "0-1-7", "7-1-1", "7-1-2")], ("b.000001", 500)),
        # a file that begins there
        ([OLD, log_of("0-2-8", head=("0-3-4", "0-1-7"))], ("b.000002", 300)),
    ],
)
def test_behind_what_was_read(files: list[list[bytes]], place: tuple[str, int]) -> None:
    found = place_on(server_with(*files), READ)
    assert (found.file, found.offset) == place
    assert (found.identity, found.made, found.gtids) == ("2:b", 60, READ.gtids)


REFUSED = [
    (server_with(MIDDLE, here="0-3-4,0-1-6"), "it lacks 0-1-7"),
    # its numbers are higher, and its history is another one
    (server_with(OLD, here="0-3-4,0-2-9"), "it lacks 0-1-7"),
    # a change of its own, before the end of what was read
    (
        server_with(log_of("0-3-4", "0-2-5", "0-1-7")),
        "it has 0-2-5 before that, which was never read",
    ),
    (
        server_with(log_of("0-1-7", head=("0-3-4", "0-2-5", "0-1-6"))),
        "it has 0-2-5 before that, which was never read",
    ),
    (server_with(OLD, here=""), "it lacks 0-1-7"),
    (server_with(OLD, here="", replayed="0-1-7"), "has nothing of what was read"),
    (server_with(MIDDLE, is_silent=True), "it logs nothing of what it replicates"),
    # it logged nothing for a while: then there is more, or more of its own, or nothing
    (
        server_with(MIDDLE, log_of("0-1-11", head=("0-3-4", "0-1-7", "0-2-8"))),
        "its log goes on with 0-1-11 behind number 8 of that domain",
    ),
    (
        server_with(log_of("0-1-7", "0-2-9", head=("0-3-4", "0-1-6"))),
        "its log goes on with 0-2-9 behind number 7 of that domain",
    ),
    (
        server_with(log_of("0-1-7", "0-2-8", "0-2-9", "0-1-9")),
        "its log goes on with 0-1-9 behind number 9 of that domain",
    ),
    # so it did while a domain began
    (
        server_with(log_of("0-3-4", "0-1-7", "7-1-6")),
        "its log goes on with 7-1-6 behind number 0 of that domain",
    ),
    (
        server_with(log_of("0-1-7", "0-2-8", "0-1-8"), replayed="0-1-9"),
        "it replayed 0-1-9, which its log does not have",
    ),
    (
        server_with(log_of("0-3-4", "0-1-7"), replayed="0-1-7,7-1-2"),
        "it replayed 7-1-2, which its log does not have",
    ),
]


@pytest.mark.parametrize(("server", "words"), REFUSED)
def test_servers_that_went_apart_are_named_with_both_states(
    server: NewServer, words: str
) -> None:
    with pytest.raises(TerminalError) as refused:
        place_on(server, READ)
    assert refused.value.code == "source_changed"
    assert words in refused.value.message
    assert READ.gtids in refused.value.message
    assert (server.here.gtids or "no GTIDs") in refused.value.message


def test_domains_that_it_has_in_another_order_are_named() -> None:
    read = replace(READ, gtids="0-1-7,1-1-5")
    there = server_with(log_of("0-1-7", "0-1-8", "1-1-5"), here="0-1-8,1-1-5")
    with pytest.raises(TerminalError, match="it has 0-1-8 before that"):
        place_on(there, read)
    # one of which nothing came since it was set up
    there = server_with(log_of("0-1-7", "0-1-8"), here="0-1-8", replayed="1-1-5")
    assert place_on(there, read).offset == 400


def test_a_log_that_was_deleted_is_lost() -> None:
    with pytest.raises(TerminalError) as lost:
        place_on(server_with(NEW), READ)
    assert lost.value.code == "log_lost"


def test_without_gtids_nobody_knows() -> None:
    with pytest.raises(TerminalError, match="had no GTIDs"):
        place_on(server_with(OLD), replace(READ, gtids=""))


def test_who_waits_for_a_long_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that says nothing for so long is ended."""
    monkeypatch.setattr(opening, "_TELL_SECONDS", -1.0)
    told = list[int]()
    events = [*opening._telling(iter(OLD), lambda: told.append(1))]
    assert (events, len(told)) == (OLD, len(OLD))
