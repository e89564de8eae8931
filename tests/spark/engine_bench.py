"""What the engine's tests share: a stand-in gateway, sessions, outcomes, lake tables."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gateway.engines.channel import EngineChannel
from gateway.engines.port import (
    EngineColumn,
    EngineOperation,
    EngineRefused,
    OperationState,
    Orientation,
)
from gateway.engines.thrift_session import ThriftEngineSession
from gateway.hs2.rowset import decode_row_set
from tests.waiting import LIMIT_SECONDS

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
STALE_SECONDS = 8.0
ORPHAN_SECONDS = 3.0
MAX_RESULT_MIB = 2
SPOOL_MIB = 12  # of one user


@dataclass(frozen=True)
class Outcome:
    """What a client got to see of one statement."""

    rows: list[tuple[Any, ...]]
    columns: tuple[EngineColumn, ...] = ()
    error: str = ""
    sql_state: str = ""

    @property
    def is_refused(self) -> bool:
        return bool(self.error or self.sql_state)

    @property
    def visible_text(self) -> str:
        return repr((self.rows, self.columns, self.error, self.sql_state))


class Client:
    """A user's session on the engine's own port, used synchronously."""

    def __init__(self, bench: EngineBench, session: ThriftEngineSession) -> None:
        self._bench = bench
        self.session = session

    def run(self, statement: str, settings: Mapping[str, str] | None = None) -> Outcome:
        return self._bench.wait(self._run(statement, settings))

    def rows(
        self, statement: str, settings: Mapping[str, str] | None = None
    ) -> list[tuple[Any, ...]]:
        outcome = self.run(statement, settings)
        assert not outcome.is_refused, f"{statement}: {outcome.error}"
        return outcome.rows

    def close(self) -> None:
        self._bench.wait(self.session.close())

    async def _run(
        self, statement: str, settings: Mapping[str, str] | None = None
    ) -> Outcome:
        try:
            operation = await self.session.execute(statement, settings)
            status = await self.session.status(operation)
            while not status.state.is_terminal:
                status = await self.session.status(operation)
            if status.state is not OperationState.FINISHED:
                await self.session.close_operation(operation)
                error = status.message or status.state.value
                return Outcome([], error=error, sql_state=status.sql_state)
            return await self._result(operation)
        except EngineRefused as error:
            return Outcome([], error=error.message or "?", sql_state=error.sql_state)

    async def _result(self, operation: EngineOperation) -> Outcome:
        columns: tuple[EngineColumn, ...] = ()
        rows: list[tuple[Any, ...]] = []
        while True:
            batch = await self.session.fetch(operation, Orientation.NEXT, 1000)
            columns = batch.columns or columns
            decoded = decode_row_set(batch.row_set)
            if not decoded or not decoded[0]:
                break
            rows += list(zip(*decoded, strict=True))
        await self.session.close_operation(operation)
        return Outcome(rows, columns)


class EngineBench:
    """One engine under one stand-in gateway."""

    def __init__(
        self,
        home: Path,
        jars: Sequence[Path],
        *,
        memory: str = "900m",
        store: Mapping[str, str] | None = None,
    ):
        self._runner = asyncio.Runner()
        self._telling = threading.Lock()
        self.home = home
        facts = {
            "home": str(home),
            "jars": [str(jar) for jar in jars],
            "memory": memory,
            "max_result": f"{MAX_RESULT_MIB}m",
            "spool_bytes_per_user": SPOOL_MIB << 20,
            "stale_seconds": STALE_SECONDS,
            "orphan_seconds": ORPHAN_SECONDS,
            "store": dict(store or {}),
        }
        self._errors = (home / "stand-in.log").open("wb")
        self.gateway = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.gateway_stand_in", json.dumps(facts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env={**os.environ, "SLUICE_CANARY_ENV": "CANARYSECRET"},
        )
        self._version = 0
        started = self.tell("start")
        self.port, self.secret = int(started["port"]), str(started["secret"])
        self.pid, self.java_pid = int(started["pid"]), int(started["java_pid"])
        self.log = Path(started["log"])

    @property
    def spooled(self) -> list[Path]:
        """Files of results that are not read yet."""
        return [*self.home.glob("engines/*/tmp/result-*")]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def tell(self, do: str, **arguments: Any) -> dict[str, Any]:
        pipe_in, pipe_out = self.gateway.stdin, self.gateway.stdout
        assert pipe_in
        assert pipe_out
        with self._telling:
            pipe_in.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            pipe_in.flush()
            answer: dict[str, Any] = json.loads(pipe_out.readline())
        assert "error" not in answer, answer
        return answer

    def table(self, name: str, path: Path | str | None, version: int = 1) -> None:
        self.tell(
            "table",
            name=name,
            path=None if path is None else str(path),
            version=version,
        )

    def policy(
        self,
        principal: str,
        *,
        select: Sequence[str] = (),
        discover: Sequence[str] = (),
        is_admin: bool = False,
        is_active: bool = True,
        sources: Sequence[str] = (),
        sources_seen: Sequence[str] = (),
        tables: Mapping[str, Mapping[str, Any]] | None = None,
        version: int = 0,
    ) -> None:
        """`tables`: what limits the principal, by name: columns, filters, masks.
        `version`: that of a gateway which counts for itself."""
        self._version += 1
        none = {"columns": None, "filters": [], "masks": {}}
        self.tell(
            "policy",
            principal=principal,
            version=version or self._version,
            is_active=is_active,
            is_admin=is_admin,
            select=list(select),
            discover=list(discover),
            sources=list(sources),
            sources_seen=list(sources_seen),
            tables={name: none | dict(on) for name, on in (tables or {}).items()},
        )

    def connect(
        self,
        principal: str,
        *,
        secret: str | None = None,
        configuration: dict[str, str] | None = None,
    ) -> Client:
        async def opener() -> EngineChannel:
            return await EngineChannel.open(
                "127.0.0.1",
                self.port,
                username=principal,
                secret=self.secret if secret is None else secret,
            )

        session = self.wait(ThriftEngineSession.open(opener, configuration or {}))
        return Client(self, session)

    def close(self) -> None:
        assert self.gateway.stdin
        if self.gateway.poll() is None:
            self.gateway.stdin.close()
            self.gateway.wait(LIMIT_SECONDS)
        else:
            self.gateway.stdin.close()
        assert self.gateway.stdout
        self.gateway.stdout.close()
        self._errors.close()
        self._runner.close()


HUDI_OPTIONS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": (
        "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    ),
    "hoodie.table.ordering.fields": "_sluice_seq",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.payload.delete.field": "_sluice_deleted",
    "hoodie.payload.delete.marker": "true",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
}


def write_table(
    spark: Any,
    path: Path,
    query: str,
    *,
    operation: str = "bulk_insert",
    more: Mapping[str, str] | None = None,
) -> None:
    """Write a query's rows as one commit of a lake table, as Sluice's driver does."""
    options = {
        **HUDI_OPTIONS,
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.operation": operation,
        **(more or {}),
    }
    writer = spark.sql(query).write.format("hudi").options(**options)
    writer.mode("append").save(str(path))
