"""What a follower and its host say keeps what its sentences were made of."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from typing import Any

from core.sentences import Sentence
from ingest.contract.following import FollowedTable, FollowerState
from ingest.follower.__main__ import HostPipe
from ingest.followers_host.children import told
from ingest.followers_host.followed import state_of
from tests.unit.ingest.test_follower_controls import wanted

WHY = Sentence("%(table)s: %(reason)s; resync the table", table="a.b", reason="lost")


class Pipe:
    """One end: what is sent is kept as the lines that go over it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.coming: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()

    def silent_for(self) -> float:
        return 0.0

    def send(self, kind: str, **payload: Any) -> None:
        self.sent.append(json.dumps({"type": kind, **payload}))

    def messages(self) -> Iterator[Mapping[str, Any]]:
        while True:
            yield self.coming.get()


NOTHING = FollowerState("starting")


def test_a_state_arrives_with_what_its_sentences_were_made_of() -> None:
    pipe = Pipe()
    state = FollowerState(
        "waiting", reason=WHY, unread=WHY, tables=(FollowedTable(7, "", WHY),)
    )
    HostPipe(pipe).tell(state)
    found = said_to_host(pipe, before=NOTHING)
    assert found == state
    for text in (found.reason, found.unread, found.tables[0].problem):
        assert isinstance(text, Sentence)
        assert text.origin == WHY.origin


def said_to_host(pipe: Pipe, *, before: FollowerState) -> FollowerState:
    """As a host reads the last message."""
    data = json.loads(pipe.sent[-1])
    return state_of({k: v for k, v in data.items() if k != "type"}, before)


def test_tables_are_told_again_only_when_one_is_another() -> None:
    pipe = Pipe()
    follower = HostPipe(pipe)
    found = NOTHING
    one, other = FollowedTable(7, "cut"), FollowedTable(7, "finished", WHY)
    for tables, are_told in [
        ((one,), True),
        ((one,), False),
        ((other,), True),
        ((other,), False),
        ((), True),
        ((), False),
    ]:
        follower.tell(FollowerState("following", tables=tables))
        found = said_to_host(pipe, before=found)
        assert found.tables == tables
        assert ("tables" in json.loads(pipe.sent[-1])) is are_told


def test_why_a_table_is_not_read_comes_back_as_it_was_sent() -> None:
    pipe = Pipe()
    one = wanted(deferred=WHY, is_unread=True)
    pipe.coming.put({"type": "hello"})
    pipe.coming.put(
        json.loads(json.dumps({"type": "tables", **told("tables", (one,))}))
    )
    host = HostPipe(pipe)
    host.open()
    [found] = host.tables(10.0) or ()
    assert found == one
    assert isinstance(found.deferred, Sentence)
    assert found.deferred.origin == WHY.origin
