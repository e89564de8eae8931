"""A source database, a lake and the jobs between them, for tests of ingest.driver."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from catalog.sources.postgresql.columns import COLUMNS
from ingest.contract.job import (
    CHUNK_ROWS,
    CLOCK,
    VERIFY_CHUNK_ROWS,
    CompactWork,
    JobReport,
    JobSpec,
    SecretAnswer,
    SnapshotWork,
    SyncWork,
    VerifyWork,
    spec_from,
)
from ingest.contract.members import as_data
from ingest.contract.table import ColumnSpec, FenceSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.gate import SourceGates
from ingest.driver.capture.parallel import enter_lane
from ingest.driver.run import run_job
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.fence import fence_path, raise_fence
from tests.source_access import postgresql_at
from tests.waiting import wait_for

TYPES = {
    "smallint": "int",
    "integer": "int",
    "bigint": "bigint",
    "boolean": "boolean",
    "real": "float",
    "double precision": "double",
    "date": "date",
    "bytea": "binary",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "text[]": "array<string>",
    "integer[]": "array<int>",
}


def lake_type(source_type: str) -> str:
    if source_type.startswith("numeric("):
        precision, scale = source_type[8:-1].split(",")
        if int(precision) <= 38:
            return f"decimal({precision},{scale})"
    return TYPES.get(source_type, "string")


class LakeBench:
    """One source database (superuser) and one lake."""

    SCHEMA = "public"

    def __init__(self, spark: Any, dsn: str, root: Path | str) -> None:
        """root: a folder, or the address of a lake on an object store."""
        self.spark = spark
        self.dsn = dsn
        self.lake = str(root / "lake") if isinstance(root, Path) else root
        self.gates = SourceGates()
        self.link: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        access = postgresql_at(dsn)
        self.source, self.password = access.spec, access.password
        self._tables = 0

    def close(self) -> None:
        self.link.close()

    def restart(self) -> None:
        """The server loses a process as by a fault, and starts anew behind a recovery;
        what was committed is kept."""
        # servers of tests write their log later than they commit
        self.link.execute("CHECKPOINT")
        with psycopg.connect(self.dsn, autocommit=True) as other:
            with suppress(psycopg.OperationalError):
                # the parent of the program is the server's process of this connection
                self.link.execute("COPY (SELECT 1) TO PROGRAM 'kill -QUIT $PPID'")
            # until the server has noticed, it takes connections that it ends with all
            wait_for(lambda: _is_ended(other), "the server to end all sessions")
        self.link = wait_for(self._connected, "the server to recover")

    def _connected(self) -> psycopg.Connection[Any] | None:
        try:
            return psycopg.connect(self.dsn, autocommit=True)
        except psycopg.OperationalError:
            return None

    def become(self, server: Any, database: str, lake: str) -> None:
        """Source and lake are copies of these."""
        self.link.close()
        server.create_database(self.source.database, like=database)
        self.link = psycopg.connect(self.dsn, autocommit=True)
        shutil.copytree(lake, self.lake)
        self._tables = 1

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.link.execute(statement)
        return cursor.fetchall() if cursor.description else []

    def table(
        self,
        name: str,
        key: tuple[str, ...] = ("id",),
        *,
        schema: str = "",
        **k: Any,
    ) -> TableSpec:
        """The spec of a source table as it is now, with its fence raised to 1."""
        schema = schema or self.SCHEMA
        found = self.columns(schema, name)
        self._tables += 1
        number = self._tables
        lake_name = f"t{number}"
        rename = k.pop("rename", {})
        columns = tuple(
            ColumnSpec(
                n, rename.get(n, n), t, k.pop(f"type_{n}", "") or self.lake_type(t)
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
            lake_name,
            f"{self.lake}/shop/{lake_name}",
            f"{self.lake}/_sluice/staging/{number}",
            columns,
            key,
            **{"buckets": 2, **k},
        )

    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        """Name and type of each, as the source tells them."""
        relation = sql.Identifier(schema, name).as_string(self.link)
        with self.link.transaction():
            # types of others have their schema in their names, as jobs see them
            self.link.execute("SET LOCAL search_path = pg_catalog")
            found = self.link.execute("SELECT %s::regclass::oid", [relation]).fetchone()
            assert found is not None
            rows = self.link.execute(COLUMNS, {"oids": list(found)}).fetchall()
        return [
            (name, f"{text}[]" if in_array else text)
            for _, _, name, text, _, in_array, *_ in rows
        ]

    def lake_type(self, source_type: str) -> str:
        return lake_type(source_type)

    def spec(self, kind: str, table: TableSpec, *, token: int = 1, **k: Any) -> JobSpec:
        scope = "service" if kind in {"compact", "verify"} else "write"
        lanes = {"compact": "maintenance", "verify": "verify", "sync": "apply"}
        lane = lanes.get(kind, "snapshot")
        fence = FenceSpec(fence_path(self.lake, table.table_id, scope).uri, token)
        values = {
            "job_id": str(uuid.uuid4()),
            "attempt": 1,
            "source": self.source,
            **k,
        }
        made = JobSpec(
            kind=kind, lane=lane, lake=self.lake, table=table, fence=fence, **values
        )
        return spec_from(as_data(made))

    def start(self, spec: JobSpec) -> JobRun:
        run = JobRun(spec, self.answer)
        enter_lane(run)
        return run

    def answer(self, ref: str) -> SecretAnswer:
        """What a host tells its driver."""
        now = datetime.now(UTC).isoformat()
        return SecretAnswer(ref, now if ref == CLOCK else self.password)

    def run(self, spec: JobSpec) -> JobReport:
        return run_job(self.start(spec), self.spark, self.gates)

    def load(
        self,
        table: TableSpec,
        *,
        kind: str = "snapshot",
        chunk_rows: int = CHUNK_ROWS,
        lag: float = 0,
        accept_empty: bool = False,
        **k: Any,
    ) -> JobReport:
        name = k.pop("load", "") or uuid.uuid4().hex
        work = SnapshotWork(chunk_rows, lag, accept_empty=accept_empty, load=name)
        return self.run(self.spec(kind, table, snapshot=work, **k))

    def sync_spec(
        self,
        table: TableSpec,
        low: str | None,
        *,
        lag: float = 0,
        max_rows: int = 5_000_000,
        behind: int = 0,
        **k: Any,
    ) -> JobSpec:
        work = SyncWork(low, lag, max_rows, behind=behind)
        return self.spec("sync", table, sync=work, **k)

    def sync(self, table: TableSpec, low: str | None, **k: Any) -> JobReport:
        return self.run(self.sync_spec(table, low, **k))

    def compact(self, table: TableSpec, *instants: str, **k: Any) -> JobReport:
        return self.run(self.spec("compact", table, compact=CompactWork(instants), **k))

    def verify_spec(
        self,
        table: TableSpec,
        *,
        position: str = "",
        chunk_rows: int = VERIFY_CHUNK_ROWS,
        rows_per_second: int = 0,
        stream: str = "",
        **k: Any,
    ) -> JobSpec:
        work = VerifyWork(position, stream, chunk_rows, rows_per_second)
        return self.spec("verify", table, verify=work, **k)

    def verify(self, table: TableSpec, **k: Any) -> JobReport:
        return self.run(self.verify_spec(table, **k))

    def take_over(self, table: TableSpec, token: int, scope: str = "write") -> None:
        raise_fence(fence_path(self.lake, table.table_id, scope), token)  # type: ignore[arg-type]

    def state(self, table: TableSpec) -> LakeState:
        return read_lake_table(table.path, commits=20)

    def frame(self, table: TableSpec) -> Any:
        return self.spark.read.format("hudi").load(table.path)

    def texts(
        self, table: TableSpec, column: str, *, form: str = "string"
    ) -> list[str | None]:
        """One column as Spark's text or hex of it, in the order of `id`."""
        shown = f"hex(`{column}`)" if form == "hex" else f"cast(`{column}` as string)"
        order = "id" if "id" in self.frame(table).columns else f"`{column}`"
        frame = self.frame(table).selectExpr(f"{order} AS o", f"{shown} AS v")
        return [row["v"] for row in frame.orderBy("o").collect()]

    def rows(
        self, table: TableSpec, *columns: str, order: str = ""
    ) -> list[tuple[Any, ...]]:
        """Values as the lake has them, by Spark's text of each."""
        frame = self.frame(table).select(*(f"`{c}`" for c in columns))
        return sorted(tuple(r) for r in frame.collect())


def _is_ended(link: psycopg.Connection[Any]) -> bool:
    try:
        link.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def assert_done(report: JobReport) -> JobReport:
    assert report.outcome == "succeeded", report
    return report


def with_attempt(spec: JobSpec, attempt: int) -> JobSpec:
    return replace(spec, attempt=attempt)
