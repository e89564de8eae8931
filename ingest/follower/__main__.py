"""`python -m ingest.follower`: one source's log, for the host at the other end of stdin
and stdout. See `ingest.contract.following` for what they say."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from core.control_channel.stdio import ControlPipe, take_over_stdio
from core.errors import TransientError
from core.object_store import StoreAccess, is_object_uri
from core.process_log import log_to
from core.sentences import Sentence, with_sentences
from ingest.contract.following import (
    FollowedTable,
    FollowerState,
    FollowSpec,
    FollowTable,
)
from ingest.contract.job import (
    LAKE_SECRET,
    ErrorFact,
    Outcome,
    SecretAnswer,
    error_from,
)
from ingest.contract.members import as_data, value_of
from ingest.contract.segments import Control
from ingest.follower.collector import Collector
from ingest.follower.follower import Follower, Stopped
from ingest.lake.chain import ChainIndex, stream_folder, take_over
from ingest.lake.place import use_object_store
from ingest.lake.segment_files import SegmentBuilder
from ingest.sources.failures import failure_of
from ingest.sources.port import LogNames, SourceAccess
from ingest.sources.registry import open_log_reader, release_log

# -------------------------------------------------------------------------- its pipe

# Without its host it has no lease: it halts when the pipe closes or falls silent.


HALTED = 70
_SILENCE_SECONDS = 30.0
_SECRET_SECONDS = 20.0
_LOOK_SECONDS = 0.5

Message = Mapping[str, Any]


class HostPipe:
    """Read by a thread; whatever ends it ends the process. See
    `ingest.follower.follower.Host`, too."""

    def __init__(self, pipe: ControlPipe) -> None:
        self._pipe = pipe
        self._silence = _SILENCE_SECONDS
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._told: tuple[FollowedTable, ...] | None = None

    def open(self) -> Message:
        """The host's hello."""
        for run in (self._read, self._watch):
            threading.Thread(target=run, daemon=True).start()
        self._pipe.send("ready", pid=os.getpid())
        hello = self._inbox.get()
        while hello.get("type") != "hello":
            hello = self._inbox.get()
        self._silence = float(hello.get("silence_seconds", self._silence))
        return hello

    def next(self, seconds: float = 0.0) -> Message | None:
        """A message that came; waits so long for one."""
        try:
            return (
                self._inbox.get(timeout=seconds)
                if seconds
                else self._inbox.get_nowait()
            )
        except queue.Empty:
            return None

    def secret(self, ref: str) -> SecretAnswer:
        """Raises what the host says instead; TransientError `secret_unavailable` when
        it says nothing in time."""
        self._pipe.send("secret_request", ref=ref)
        kept: list[Message] = []
        end = time.monotonic() + _SECRET_SECONDS
        try:
            while (left := end - time.monotonic()) > 0:
                message = self.next(left)
                if message is None:
                    break
                if message.get("type") != "secret" or message.get("ref") != ref:
                    kept.append(message)
                    continue
                return _value_of(message)
        finally:
            for message in kept:
                self._inbox.put(message)
        raise TransientError(
            Sentence("the password of the source was not handed to its follower"),
            code="secret_unavailable",
            hint=Sentence("enter the datasource's password again; it is tried again"),
        )

    def tables(self, seconds: float = 0.0) -> tuple[FollowTable, ...] | None:
        found = None
        message = self.next(seconds)
        while message is not None:
            if message.get("type") == "stop":
                raise Stopped
            if message.get("type") == "tables":
                told = with_sentences(message)
                found = value_of(tuple[FollowTable, ...], told.get("tables"))
            message = self.next()
        return found

    def tell(self, state: FollowerState) -> None:
        origins: dict[str, Any] = {}
        # of hundreds of tables seldom one has changed
        is_same, self._told = state.tables == self._told, state.tables
        told = as_data(replace(state, tables=()) if is_same else state, origins)
        if is_same:
            del told["tables"]
        self._send("state", **told, sentences=origins)

    def fail(self, outcome: Outcome, error: ErrorFact) -> None:
        self._send("failed", outcome=outcome, error=as_data(error))

    def _send(self, kind: str, **payload: Any) -> None:
        try:
            self._pipe.send(kind, **payload)
        except OSError:
            _halt("the control pipe has no reader")

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for message in self._pipe.messages():
                if message.get("type") != "ping":
                    self._inbox.put(message)
        _halt("the control pipe closed")

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            if self._pipe.silent_for() > self._silence:
                _halt(f"nothing received for {self._silence:g} s")


def _value_of(message: Message) -> SecretAnswer:
    answer = value_of(SecretAnswer, message)
    if answer.error is not None:
        raise error_from(answer.outcome, answer.error)
    return answer


def _halt(why: str) -> None:
    log.error("follower halts: %s", why)
    os._exit(HALTED)


# ----------------------------------------------------- the end of following a source

# The stream says that no table goes on by it, what it kept is deleted, and the source
# gets its log back. Each step may be done twice: whoever dies between two begins again.


def release(spec: FollowSpec, give_back: Callable[[], None]) -> None:
    """give_back: at the source; last, for a stream without its slot is a lost one."""
    folder = stream_folder(spec.lake, spec.stream)
    if (folder / "beginning.json").read() is not None:
        _end_tables(spec)
        Collector(folder, spec.stream, list).collect()
    give_back()


def _end_tables(spec: FollowSpec) -> None:
    index = ChainIndex(stream_folder(spec.lake, spec.stream), spec.stream)
    while index.refresh():
        pass
    newest, known = index.newest, index.tables()
    left = [pk for pk, state in known.items() if state.state != "removed"]
    if newest is None or not left:
        return
    chain = take_over(
        index.folder,
        stream=spec.stream,
        writer=spec.writer,
        server=newest.server,
        begin=newest.end,
    )
    controls = [Control("removed", table_id) for table_id in left]
    SegmentBuilder(chain).close(end=chain.last.end, controls=controls)


log = logging.getLogger(__name__)
FAILED = 1


def main() -> int:
    pipe = HostPipe(take_over_stdio())
    log_to()
    hello = pipe.open()
    try:
        _follow(pipe, value_of(FollowSpec, with_sentences(hello).get("spec")))
    except Stopped:
        return 0
    except Exception as error:
        log.exception("the follower ends")
        failure = failure_of(error)
        pipe.fail(failure.outcome, failure.error)
        return FAILED
    return 0


def _follow(pipe: HostPipe, spec: FollowSpec) -> None:
    if is_object_uri(spec.lake):
        use_object_store(StoreAccess(**json.loads(pipe.secret(LAKE_SECRET).value)))
    secret = pipe.secret(spec.source.secret_ref)
    if secret.host and secret.host != spec.source.host:
        # the new password must not go to the old host
        raise TransientError(
            "the datasource's host was changed: %(before)s is %(now)s now",
            before=spec.source.host,
            now=secret.host,
            code="source_moved",
            hint=Sentence("it is tried again with the new host"),
        )
    access = SourceAccess(
        spec.source,
        secret.value,
        f"sluice:follower:{spec.stream}",
        secret.addresses,
        secret.authorities,
    )
    names = LogNames(spec.slot, spec.publication)
    if spec.is_over:
        release(spec, functools.partial(release_log, access, names))
        return
    Follower(pipe, spec, functools.partial(open_log_reader, access, names)).run()


if __name__ == "__main__":
    sys.exit(main())
