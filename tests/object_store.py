"""A real server that speaks S3, for tests: moto's, in this process, with a door that
a test can watch."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.server import ThreadedMotoServer

from core.object_store import StoreAccess
from ingest.lake.s3.client import StoreClient


@dataclass(slots=True)
class Door:
    """Every request passes here. watch: a pattern of `METHOD /path`, and what is done
    before such a request goes on; False: it does not go on, and is answered 503.

    Changes go on one by one: a store decides a condition and writes in one step, and
    moto reads the one, then does the other.
    """

    inner: Any
    watch: tuple[re.Pattern[str], Callable[[], bool]] | None = None
    asked: list[str] = field(default_factory=list)
    changing: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.asked.append(line)
        watch = self.watch
        if watch is not None and watch[0].search(line) and not watch[1]():
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        is_read = environ["REQUEST_METHOD"] in {"GET", "HEAD"}
        with contextlib.nullcontext() if is_read else self.changing:
            answer: Iterable[bytes] = self.inner(environ, start)
            return answer


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """One server; every lake gets a bucket of its own."""

    server: ThreadedMotoServer
    door: Door
    access: StoreAccess

    def new_lake(self) -> str:
        bucket = f"lake-{uuid.uuid4().hex[:12]}"
        StoreClient(self.access).put(bucket, "", b"", {})
        return f"s3://{bucket}/house"

    @contextmanager
    def watched(self, pattern: str, act: Callable[[], bool]) -> Iterator[None]:
        self.door.watch = (re.compile(pattern), act)
        try:
            yield
        finally:
            self.door.watch = None


def start_object_store() -> ObjectStore:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    listening: Any = server._server
    door = Door(listening.app)
    listening.app = door
    host, port = server.get_host_and_port()
    access = StoreAccess(
        endpoint=f"http://{host}:{port}",
        region="us-east-1",
        access_key="CANARYACCESSKEY",
        secret_key="canary-secret-key",
        path_style=True,
    )
    return ObjectStore(server, door, access)
