"""An engine that is started and asked a little of everything, to note which classes its
JVM loads, for the archive that `config.toolchain.class_lists` writes.

    python -m gateway.engines.rehearsal --jars a.jar:b.jar --classes FILE --lake FOLDER

It reads the table `t` in the folder. It must not know who asks for it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from catalog.access.principal_policy import PrincipalPolicy
from catalog.selectors.locations import LakeLocation
from core.class_archive import rehearsal_of
from gateway.engines.launch import JAVA_OPTIONS, EngineSpec
from gateway.engines.port import EngineQuestions, EngineSession, Orientation
from gateway.engines.spark_thrift import SparkEngine

USER = "rehearsal"
_WORK = (
    "SELECT 1",
    "SELECT v, count(*) FROM rehearsal.t GROUP BY v ORDER BY 2 LIMIT 5",
    "SELECT a.id, b.v FROM rehearsal.t a JOIN rehearsal.t b ON a.id = b.id",
)


class _Lake:
    """A lake with one table in it; nothing else is asked of who rehearses."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    async def look_up(self, _database: str, table: str) -> LakeLocation | None:
        return LakeLocation(f"{self._folder}/{table}", 1)

    def db_read_age_ms(self) -> int:
        return 0

    async def _nothing(self, *_: str) -> list[object]:
        return []

    list_tables = columns_by_table = live_names = _nothing


def main(arguments: Sequence[str] | None = None) -> int:
    given = rehearsal_of(arguments, about=__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="sluice-rehearsal-") as home:
        spec = EngineSpec(
            home=Path(home),
            jars=tuple(Path(jar) for jar in given.jars),
            memory="900m",
            java_options=f"{JAVA_OPTIONS} '{given.java_option}'",
        )
        asyncio.run(_rehearse(spec, _Lake(given.lake)))
    return 0


async def _rehearse(spec: EngineSpec, lake: _Lake) -> None:
    engine = SparkEngine(spec, cast("EngineQuestions", lake), engine_id=USER)
    try:
        await engine.start()
        await engine.push_policy(
            PrincipalPolicy(USER, 1, is_active=True, is_admin=False, select=("*",))
        )
        session = await engine.open_session(USER, {})
        for statement in _WORK:
            await _read(session, statement)
        await session.close()
    finally:
        await engine.stop(grace_seconds=5)


async def _read(session: EngineSession, statement: str) -> None:
    operation, first = await session.query(statement, None, 1000)
    await first
    while (await session.fetch(operation, Orientation.NEXT, 1000)).rows:
        pass
    await session.close_operation(operation)


if __name__ == "__main__":
    raise SystemExit(main())
