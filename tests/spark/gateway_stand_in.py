"""A process in the gateway's place: launches one engine and keeps its control channel.

Takes commands as JSON lines on stdin and answers each with one line on stdout, so that
a test can stop, continue and kill "the gateway" without stopping itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from catalog.access.principal_policy import PrincipalPolicy
from catalog.access.table_rights import Mask, TableRights
from catalog.selectors.locations import LakeLocation, LiveTable
from gateway.engines.launch import EngineSpec
from gateway.engines.port import EngineOperation
from gateway.engines.spark_thrift import SparkEngine


class Questions:
    """The catalogue: what the test said, nothing else."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], LakeLocation] = {}
        self.sources: dict[tuple[str, str, str], LiveTable] = {}
        self.age_ms = 0

    async def live_table(
        self, principal: str, datasource: str, database: str, table: str
    ) -> LiveTable | None:
        # With how it is reached, whoever asks: the engine has to decide for itself.
        return self.sources.get((datasource.lower(), database.lower(), table.lower()))

    async def look_up(self, database: str, table: str) -> LakeLocation | None:
        return self.tables.get((database, table))

    async def lake_name_of(
        self, datasource: str, database: str, table: str
    ) -> str | None:
        known = {"orders": "shop.orders", "secrets": "vault.secrets"}
        return known.get(table) if datasource == "erp" else None

    async def live_names(
        self, principal: str, datasource: str, database: str
    ) -> list[str]:
        asked = [part.lower() for part in (datasource, database) if part]
        parts = [[str(p) for p in t.table["parts"]] for t in self.sources.values()]  # type: ignore[attr-defined]
        fits = [p for p in parts if [x.lower() for x in p[: len(asked)]] == asked]
        # a table without a name stands for an empty database
        return sorted({p[len(asked)] for p in fits} - {""})

    async def live_versions(self, sources: Collection[str]) -> dict[str, str]:
        return dict.fromkeys(sources, "")

    async def end_live_statements(self, sources: Collection[str], mark: str) -> None:
        self.ended = (tuple(sources), mark)

    async def list_tables(
        self, principal: str, database: str, pattern: str
    ) -> list[tuple[str, str]]:
        # Deliberately unfiltered: the engine has to filter for itself.
        return [name for name in self.tables if database in {"*", name[0]}]

    async def columns_by_table(
        self, principal: str, database: str, pattern: str
    ) -> dict[str, list[tuple[str, str, bool]]]:
        found = [("id", "bigint", False), ("paid", "array<decimal(10,2)>", True)]
        return {name: found for schema, name in self.tables if schema == database}

    def db_read_age_ms(self) -> int:
        return self.age_ms


class StandIn:
    def __init__(self, spec: EngineSpec) -> None:
        self.questions = Questions()
        self.engine = SparkEngine(spec, self.questions, engine_id="test")

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        kind = command.pop("do")
        result: dict[str, Any] = await getattr(self, kind)(**command)
        return result

    async def start(self) -> dict[str, Any]:
        await self.engine.start()
        running = self.engine._running
        assert running is not None
        assert running.control.hello is not None
        return {
            "port": running.port,
            "secret": running.secret,
            "pid": running.process.pid,
            "java_pid": running.control.hello.pid,
            "log": str(running.process.log_path),
        }

    async def table(self, name: str, path: str | None, version: int) -> dict[str, Any]:
        database, table = name.split(".")
        self.questions.tables.pop((database, table), None)
        if path is not None:
            self.questions.tables[database, table] = LakeLocation(path, version)
        return {}

    async def source(
        self, table: dict[str, Any], access: dict[str, Any]
    ) -> dict[str, Any]:
        datasource, database, name = (part.lower() for part in table["parts"])
        self.questions.sources[datasource, database, name] = LiveTable(table, access)
        return {}

    async def policy(self, **facts: Any) -> dict[str, Any]:
        facts["select"], facts["discover"] = (
            tuple(facts["select"]),
            tuple(facts["discover"]),
        )
        facts["sources"] = tuple(facts["sources"])
        facts["sources_seen"] = tuple(facts["sources_seen"])
        facts["tables"] = {
            name: _rights(**limits) for name, limits in facts["tables"].items()
        }
        await self.engine.push_policy(PrincipalPolicy(**facts))
        return {}

    async def age(self, ms: int) -> dict[str, Any]:
        self.questions.age_ms = ms
        return {}

    async def probe(self) -> dict[str, Any]:
        await self.engine.probe()
        return {"state": self.engine.facts().state}

    async def progress(self, statement: str) -> dict[str, Any]:
        handle = EngineOperation(bytes.fromhex(statement), b"")
        found = self.engine.progress(handle)
        return {"progress": found and asdict(found)}

    async def reads(self, statement: str) -> dict[str, Any]:
        found = self.engine.reads(EngineOperation(bytes.fromhex(statement), b""))
        if found is None:
            return {"reads": None}
        tables = {name: sorted(on) for name, on in found.tables.items()}
        return {
            "reads": tables,
            "version": found.version,
            "is_whole": found.is_whole,
        }

    async def hang_up(self) -> dict[str, Any]:
        assert self.engine._running is not None
        await self.engine._running.control.close()
        return {}

    async def stop(self) -> dict[str, Any]:
        await self.engine.stop(grace_seconds=5)
        return {"state": self.engine.facts().state}


def _rights(
    columns: list[str] | None, filters: list[str], masks: dict[str, list[str]]
) -> TableRights:
    found = {column: Mask(*mask) for column, mask in masks.items()}
    return TableRights(
        None if columns is None else frozenset(columns),
        tuple(filters),
        tuple(sorted(found.items())),
    )


async def main() -> None:
    facts = json.loads(sys.argv[1])
    spec = EngineSpec(
        home=Path(facts["home"]),
        jars=tuple(Path(jar) for jar in facts["jars"]),
        memory=facts["memory"],
        max_result=facts["max_result"],
        spool_bytes=2 * facts["spool_bytes_per_user"],
        spool_bytes_per_user=facts["spool_bytes_per_user"],
        stale_seconds=facts["stale_seconds"],
        orphan_seconds=facts["orphan_seconds"],
        store=facts["store"],
    )
    stand_in = StandIn(spec)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        try:
            answer = await stand_in.obey(json.loads(line))
        except Exception as error:  # noqa: BLE001  the test shows it
            answer = {"error": repr(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    await stand_in.stop()


if __name__ == "__main__":
    asyncio.run(main())
