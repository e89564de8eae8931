"""The main job, end to end, as a user and a program would do it."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ingest.pipelines.samples import plain
from tests.acceptance import wide
from tests.product import Product, manage
from tests.waiting import wait_for

ROWS = int(os.environ.get("SLUICE_ACCEPTANCE_ROWS", "25000"))

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def wide_source(product: Product) -> str:
    """A datasource over REST that points to a fresh database with the wide table."""
    name = "wide"
    with product.source() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    with product.source(name) as source:
        source.execute(wide.CREATE)
        step = 250_000
        for first in range(1, ROWS + 1, step):
            last = min(first + step - 1, ROWS)
            source.execute(
                wide.FILL.replace("{first}", str(first)).replace("{last}", str(last))
            )
        source.execute("ANALYZE wide")
    product.register(name)
    product.discover(name)
    return name


@pytest.fixture(scope="module")
def wide_table(product: Product, wide_source: str) -> Any:
    body = {
        "datasource": wide_source,
        "include": ["public.wide"],
        "capture": "timestamp",
        "schedule": {"every_seconds": 5},
    }
    dry = product.api.call("POST", "/onboardings", {**body, "dry_run": True})
    assert dry.status == 200, dry.body
    assert "a_wide" in str(dry.body)
    product.api.post("/onboardings", {**body, "approve": True})
    return product.api.wait_live("lake.wide.wide")


def test_the_demo_is_live_and_answers_over_jdbc(product: Product) -> None:
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM lake.demo.orders")
        (count,) = cursor.fetchone()
    with product.source() as source:
        (expected,) = source.execute("SELECT count(*) FROM orders").fetchone()
    assert 0 < count <= expected


def assert_equal(product: Product, *, where: str = "true") -> int:
    """Every row that `where` (SQL of both sides) takes; returns how many."""
    with product.source("wide") as source, product.hive() as hive:
        at_source, in_lake = (
            wide.source_rows(source, where),
            wide.lake_rows(hive, where),
        )
        rows, found = wide.differences(at_source, in_lake)
    assert found == []
    return rows


def test_every_row_equals_the_source(product: Product, wide_table: Any) -> None:
    assert assert_equal(product) == ROWS


def test_a_change_arrives_and_is_seen_by_an_open_session(
    product: Product, wide_table: Any
) -> None:
    with product.hive() as connection, connection.cursor() as cursor:
        query = "SELECT a_text FROM wide.wide WHERE id = 7"
        cursor.execute(query)
        before = cursor.fetchone()[0]
        with product.source("wide") as source:
            source.execute(
                "UPDATE wide SET a_text = 'changed', updated_at = clock_timestamp()"
                " WHERE id = 7"
            )

        def seen() -> bool:
            cursor.execute(query)
            return bool(cursor.fetchone()[0] == "changed")

        assert before != "changed"
        wait_for(seen, "the changed row in an open session")
    assert assert_equal(product, where="id % 50 = 7") == ROWS // 50


def test_an_older_state_is_read_as_of_its_commit(
    product: Product, wide_table: Any
) -> None:
    """Through the gateway, by the instant that REST names."""
    commits = product.api.get(f"/tables/{wide_table['id']}/commits")["items"]
    instant = commits[0]["instant"]
    query = "SELECT a_text FROM wide.wide{} WHERE id = 11"
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(query.format(""))
        before = cursor.fetchone()
        with product.source("wide") as source:
            source.execute(
                "UPDATE wide SET a_text = 'later', updated_at = clock_timestamp()"
                " WHERE id = 11"
            )

        def seen() -> bool:
            cursor.execute(query.format(""))
            return bool(cursor.fetchone()[0] == "later")

        wait_for(seen, "the changed row")
        cursor.execute(query.format(f" TIMESTAMP AS OF '{instant}'"))
        assert cursor.fetchone() == before


def test_a_sample_over_rest_shows_timestamps_without_zone(
    product: Product, wide_table: Any
) -> None:
    """The reader of files knows no such type: REST asks the gateway, as pages do."""
    path = f"/tables/{wide_table['id']}/sample?limit=5"

    def rows() -> Any:
        reply = product.api.call("GET", path)
        if reply.status == 503 and reply.body["code"] == "rows_late":
            return None
        assert reply.status == 200, reply.body
        return reply.body

    sample = wait_for(rows, "an engine for the sample")
    names = [column["name"] for column in sample["columns"]]
    kinds = {column["name"]: column["type"] for column in sample["columns"]}
    assert kinds["a_ts"] == "timestamp_ntz"
    found = {row[names.index("id")]: row for row in sample["rows"]}
    assert len(found) == 5
    with product.source("wide") as source:
        source.execute("SET TIME ZONE 'UTC'")
        columns = ("a_ts", "a_tstz", "a_bytes", "a_list", "a_num", "a_bool")
        at_source = source.execute(
            f"SELECT id, {', '.join(columns)} FROM wide WHERE id = ANY(%s)",
            [list(found)],
        ).fetchall()
    for row in at_source:
        shown = [found[row[0]][names.index(name)] for name in columns]
        assert shown == [plain(value) for value in row[1:]]


def beeline(product: Product, sql: str, *, password: str = "") -> str:
    """The beeline that ships inside PySpark's jars, as a subprocess."""
    jars = Path(pyspark.__file__).parent / "jars"
    done = subprocess.run(
        [
            "java",
            "-Dfile.encoding=UTF-8",
            "-cp",
            f"{jars}/*",
            "org.apache.hive.beeline.BeeLine",
            "-u",
            product.connection["jdbc_url"],
            "-n",
            product.connection["username"],
            "-p",
            password or product.connection["password"],
            "--outputformat=tsv2",
            "--showHeader=false",
            "--silent=true",
            "-e",
            sql,
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    return done.stdout + ("" if done.returncode == 0 else done.stderr)


def test_beeline_reads_what_the_source_holds(product: Product, wide_table: Any) -> None:
    said = beeline(
        product,
        "SELECT id, a_num, a_free, a_date, a_time, a_tstz, a_uuid, lower(hex(a_bytes)),"
        " a_double FROM lake.wide.wide WHERE id BETWEEN 1000 AND 2999 ORDER BY id",
    )
    with product.source("wide") as source:
        source.execute("SET TIME ZONE 'UTC'")
        rows = source.execute(
            "SELECT id::text, a_num::text, a_free::text, a_date::text, a_time::text,"
            " trim(trailing '.' from trim(trailing '0' from"
            " to_char(a_tstz, 'YYYY-MM-DD HH24:MI:SS.US'))), a_uuid::text,"
            " encode(a_bytes, 'hex') FROM wide WHERE id BETWEEN 1000 AND 2999"
            " ORDER BY id"
        ).fetchall()
    # its prompt stands before the first row
    lines = [line.rpartition("> ")[2].split("\t") for line in said.splitlines() if line]
    assert len(lines) == len(rows), said[:2000]
    for line, row in zip(lines, rows, strict=True):
        shown = [*line[:5], line[5].removesuffix(".0"), *line[6:8]]
        assert tuple(shown) == row


def test_a_wrong_password_is_refused(product: Product) -> None:
    assert "Error validating the login" in beeline(
        product, "SELECT 1", password=uuid.uuid4().hex
    )


def test_a_stranger_sees_nothing(product: Product, wide_table: Any) -> None:
    password = uuid.uuid4().hex
    product.api.post(
        "/users",
        {"name": "stranger", "password": password, "groups": [], "is_admin": False},
        status=201,
    )
    with (
        product.hive("stranger", password) as connection,
        connection.cursor() as cursor,
    ):
        with pytest.raises(Exception, match=r"42P01|TABLE_OR_VIEW_NOT_FOUND"):
            cursor.execute("SELECT * FROM wide.wide")
        cursor.execute("SHOW DATABASES")
        assert "wide" not in str(cursor.fetchall())


def test_rights_on_rows_and_columns_hold_for_every_client(product: Product) -> None:
    """Columns that are granted, a row filter and a mask, by HiveServer2 and REST; and
    what the administrator is shown of it."""
    api, orders, password = product.api, "lake.demo.orders", uuid.uuid4().hex
    api.post("/users", {"name": "rita", "password": password}, status=201)
    granted = {"principal": "user:rita", "privilege": "select", "on": orders}
    api.post("/grants", {**granted, "columns": ["id", "status"]}, status=201)
    bound = {"applies_to": ["user:rita"]}
    only = {"kind": "row_filter", "on": orders, "expression": "id <= 50"}
    api.post("/rules", {**only, **bound}, status=201)
    masked = {"kind": "mask", "on": f"{orders}.status", "mask": "redact"}
    api.post("/rules", {**masked, **bound}, status=201)

    with product.hive("rita", password) as hive, hive.cursor() as cursor:
        cursor.execute("SELECT * FROM lake.demo.orders ORDER BY id")
        names = [column[0].rpartition(".")[2] for column in cursor.description]
        assert [name for name in names if name[0] != "_"] == ["id", "status"]
        at = names.index("id")
        found = [row[at : at + 2] for row in cursor.fetchall()]
        assert found
        assert all(number <= 50 and status == "***" for number, status in found)
        with pytest.raises(Exception, match=r"42703|UNRESOLVED_COLUMN"):
            cursor.execute("SELECT customer_id FROM demo.orders")
        cursor.execute("DESCRIBE demo.orders")
        assert "customer_id" not in str(cursor.fetchall())

    asked = f"principal=user:rita&on={orders}"
    why = api.get(f"/access/explain?{asked}")
    assert (why["columns"], len(why["filters"]), len(why["masks"])) == (
        ["id", "status"],
        1,
        1,
    )
    # as her own statement over REST
    seen = api.get(f"/access/preview?{asked}")
    assert [c["name"] for c in seen["columns"]] == ["id", "status"]
    assert {row[1] for row in seen["rows"]} == {"***"}


def test_compaction_by_hand_keeps_reads_right(
    product: Product, wide_table: Any
) -> None:
    table = product.api.table("lake.wide.wide")
    before = product.api.get(f"/tables/{table['id']}")["last_commit"]
    job = product.api.post(f"/tables/{table['id']}:compact")
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(DISTINCT id) FROM wide.wide")
        assert cursor.fetchone() == (ROWS, ROWS)
        done = product.api.wait_job(job["id"])
        assert done["state"] == "SUCCEEDED", done
        cursor.execute("SELECT count(*), count(DISTINCT id) FROM wide.wide")
        assert cursor.fetchone() == (ROWS, ROWS)
    after = product.api.get(f"/tables/{table['id']}")["last_commit"]
    assert after["epoch"] >= before["epoch"]


def test_verify_finds_every_row_of_every_type_equal(
    product: Product, wide_table: Any
) -> None:
    said = manage(product.home, "verify", "wide.wide", seconds=900)
    assert f"Equal: {ROWS:,} rows on both sides." in said
