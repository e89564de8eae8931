"""`python -m ingest.follower`: one source's log, for the host at the other end of stdin
and stdout. See `ingest.contract.following` for what they say."""

from __future__ import annotations

import functools
import json
import logging
import sys

from core.control_channel.stdio import take_over_stdio
from core.errors import TransientError
from core.object_store import StoreAccess, is_object_uri
from core.process_log import log_to_stderr
from ingest.contract.following import (
    FollowerState,
    FollowSpec,
    FollowTable,
)
from ingest.contract.job import LAKE_SECRET
from ingest.contract.members import value_of
from ingest.follower.follower import Follower, Stopped
from ingest.follower.pipe import HostPipe
from ingest.follower.release import release
from ingest.lake.place import use_object_store
from ingest.sources.failures import failure_of
from ingest.sources.port import LogNames, SourceAccess
from ingest.sources.registry import open_log_reader, release_log

log = logging.getLogger(__name__)
FAILED = 1


class HostOfTables:
    """See `ingest.follower.follower.Host`."""

    def __init__(self, pipe: HostPipe) -> None:
        self._pipe = pipe

    def tables(self, seconds: float = 0.0) -> tuple[FollowTable, ...] | None:
        found = None
        message = self._pipe.next(seconds)
        while message is not None:
            if message.get("type") == "stop":
                raise Stopped
            if message.get("type") == "tables":
                found = value_of(tuple[FollowTable, ...], message.get("tables"))
            message = self._pipe.next()
        return found

    def tell(self, state: FollowerState) -> None:
        self._pipe.tell(state)


def main() -> int:
    pipe = HostPipe(take_over_stdio())
    log_to_stderr()
    hello = pipe.open()
    try:
        _follow(pipe, value_of(FollowSpec, hello.get("spec")))
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
            f"the datasource's host was changed: {spec.source.host} is {secret.host}"
            " now",
            code="source_moved",
            hint="it is tried again with the new host",
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
    Follower(
        HostOfTables(pipe), spec, functools.partial(open_log_reader, access, names)
    ).run()


if __name__ == "__main__":
    sys.exit(main())
