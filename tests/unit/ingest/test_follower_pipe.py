"""What a follower and its host say keeps what its sentences were made of."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from typing import Any

from core.sentences import Sentence
from ingest.contract.following import FollowedTable, FollowerState
from ingest.follower.__main__ import HostOfTables, HostPipe
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


def test_a_state_arrives_with_what_its_sentences_were_made_of() -> None:
    pipe = Pipe()
    state = FollowerState(
        "waiting", reason=WHY, unread=WHY, tables=(FollowedTable(7, "", WHY),)
    )
    HostPipe(pipe).tell(state)
    [line] = pipe.sent
    found = state_of({k: v for k, v in json.loads(line).items() if k != "type"})
    assert found == state
    for text in (found.reason, found.unread, found.tables[0].problem):
        assert isinstance(text, Sentence)
        assert text.origin == WHY.origin


def test_why_a_table_is_not_read_comes_back_as_it_was_sent() -> None:
    pipe = Pipe()
    one = wanted(deferred=WHY, is_unread=True)
    pipe.coming.put({"type": "hello"})
    pipe.coming.put(
        json.loads(json.dumps({"type": "tables", **told("tables", (one,))}))
    )
    host = HostPipe(pipe)
    host.open()
    [found] = HostOfTables(host).tables(10.0) or ()
    assert found == one
    assert isinstance(found.deferred, Sentence)
    assert found.deferred.origin == WHY.origin
