"""`LakeBench` with a MariaDB source."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from catalog.schema.mariadb import lake_type
from ingest.contract import ColumnSpec, SourceSpec, TableSpec
from ingest.lake.fence import fence_path, raise_fence
from ingest.spark.gate import SourceGates
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import LakeBench


class MariadbBench(LakeBench):
    """One database `shop` of the server, read as its administrator."""

    def __init__(self, spark: Any, server: MariaDbServer, root: Path) -> None:
        self.spark = spark
        self.server = server
        self.lake = str(root / "lake")
        self.gates = SourceGates()
        server.create_database("shop")
        self.link = server.connect("shop")
        self.password = server.password
        self.source = SourceSpec(
            self.SOURCE,
            "mariadb",
            server.host,
            server.port,
            "",
            server.username,
            "datasource:1",
        )
        self._epoch = 100
        self._tables = 0
        self._lock = threading.Lock()

    def restart(self) -> None:
        """The server starts anew; what it has is kept."""
        self.link.close()
        self.server.restart()
        self.link = self.server.connect("shop")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with self._lock, self.link.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def table(
        self,
        name: str,
        key: tuple[str, ...] = ("id",),
        *,
        schema: str = "shop",
        **k: Any,
    ) -> TableSpec:
        with self.link.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, column_type FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name = %s"
                " ORDER BY ordinal_position",
                [schema, name],
            )
            found = list(cursor.fetchall())
        self._tables += 1
        number = self._tables
        rename = k.pop("rename", {})
        columns = tuple(
            ColumnSpec(
                n, rename.get(n, n), t, k.pop(f"type_{n}", None) or lake_type(t).type
            )
            for n, t in found
        )
        for scope in ("write", "service"):
            raise_fence(fence_path(self.lake, number, scope), 1)
        return TableSpec(
            number,
            schema,
            name,
            "shop",
            f"t{number}",
            f"{self.lake}/shop/t{number}",
            f"{self.lake}/_sluice/staging/{number}",
            columns,
            key,
            **{"buckets": 2, **k},
        )
