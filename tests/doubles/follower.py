"""A follower that reads nothing: it speaks as one, and shows what it was given.

Of its state, `number` is how many tables are wanted, `position` the loads of them,
`first` how many bytes its secret has, and `rows` how many states it sent. `--act` names
what else it does: `fail` (with what error), `hang`, `lose` (a table's problem).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import threading
from io import FileIO
from typing import Any

from core.control_channel.channel import Channel, PipeStream
from core.sentences import Sentence
from ingest.contract.following import FollowedTable, FollowerState, SourceLog
from ingest.contract.job import ErrorFact
from ingest.contract.members import as_data

PERIOD_SECONDS = 0.1
LOST = Sentence("%(table)s: %(reason)s; resync the table", table="a", reason="lost")


class StandIn:
    def __init__(self, act: str) -> None:
        pipes = PipeStream(FileIO(os.dup(0), "rb"), FileIO(os.dup(1), "wb"))
        self.channel = Channel(pipes)
        self.act = act
        self.tables: list[dict[str, Any]] = []
        self.secret = ""
        self.stop = threading.Event()
        self.rows = 0

    def run(self) -> int:
        messages = self.channel.messages()
        hello = next(messages)
        spec = hello["spec"]
        self.tables = spec["tables"]
        self.send("ready", pid=os.getpid())
        self.send("secret_request", ref=spec["source"]["secret_ref"])
        if self.act == "fail":
            fault = ErrorFact(
                "slot_lost", "slot 's' is lost: \x00", "resync its tables"
            )
            self.send("failed", outcome="terminal", error=dataclasses.asdict(fault))
            return 1
        reader = threading.Thread(target=self.read, args=(messages,), daemon=True)
        reader.start()
        while not self.stop.wait(PERIOD_SECONDS):
            if self.act != "hang":
                origins: dict[str, Any] = {}
                state = as_data(self.state(), origins)
                self.send("state", **state, sentences=origins)
        return 0

    def read(self, messages: Any) -> None:
        for message in messages:
            match message["type"]:
                case "tables":
                    self.tables = message["tables"]
                case "secret":
                    self.secret = message["value"]
                case "stop":
                    break
        self.stop.set()

    def state(self) -> FollowerState:
        self.rows += 1
        ids = [one["table"]["table_id"] for one in self.tables]
        return FollowerState(
            observed="following",
            position=",".join(one["load"] for one in self.tables),
            number=len(ids),
            first=len(self.secret),
            committed=1_700_000_000_000_000,
            rows=self.rows,
            waiting_bytes=4096,
            log=SourceLog(kept=1 << 20, safe=1 << 30, behind=512, status="reserved"),
            tables=tuple(FollowedTable(pk, *self.about()) for pk in ids),
        )

    def about(self) -> tuple[Any, ...]:
        if self.act == "lose":
            return ("deferred", LOST)
        return ("finished", "", ("extra",) if self.act == "extra" else ())

    def send(self, kind: str, **data: Any) -> None:
        self.channel.send({"type": kind, **data})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--act", default="")
    sys.exit(StandIn(parser.parse_args().act).run())
