"""Stored results as files over REST: whole, own, and never run again."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from zipfile import ZipFile

import pyarrow as pa
import pytest
from pyarrow import parquet
from rest_framework.test import APIClient

from gateway import client
from gateway.api import downloads
from gateway.engines.port import EngineColumn
from gateway.hs2.values import TypeId
from tests.doubles.engine import FakeAnswer

URL = "/api/v1/sql/statements"
KINDS = [
    EngineColumn("n", TypeId.BIGINT),
    EngineColumn("t", TypeId.STRING),
    EngineColumn("d", TypeId.DECIMAL, {"precision": 38, "scale": 2}),
]


@pytest.fixture(autouse=True)
def _places():
    yield
    assert downloads.DOWNLOADS.taken == 0


def results(ann: APIClient, sql: str, **more) -> str:
    asked = {"sql": sql, "wait_seconds": 20, **more}
    body = ann.post(URL, asked, format="json").json()
    assert body["state"] == "FINISHED", body
    return f"{URL}/{body['id']}/results"


def whole(reply) -> bytes:
    assert reply.status_code == 200, reply.content
    return b"".join(reply.streaming_content)


def test_all_pages_are_one_file_and_nothing_runs_again(rest, gateway) -> None:
    ann = rest("ann")
    path = results(ann, "SELECT * FROM range(1700)", row_limit=5000)
    ran = len(gateway.engine.journal)
    reply = ann.get(path, {"format": "csv"}, headers={"Accept": "text/csv"})
    assert reply["Content-Type"].startswith("text/csv; charset=utf-8")
    assert reply["Content-Disposition"].startswith('attachment; filename="statement-')
    assert (reply["X-Sluice-Rows"], reply["X-Sluice-Truncated"]) == ("1700", "false")
    rows = list(csv.reader(io.StringIO(whole(reply).decode(), newline="")))
    assert rows == [["id"], *[[f"{n}"] for n in range(1700)]]
    table = parquet.read_table(io.BytesIO(whole(ann.get(path, {"format": "parquet"}))))
    assert table.column("id").to_pylist() == list(range(1700))
    stream = whole(ann.get(path, {"format": "arrow"}))
    assert pa.ipc.open_stream(stream).read_all() == table
    reply = ann.get(path, {"format": "xlsx"})
    assert reply["Content-Disposition"].endswith('.xlsx"')
    book = ZipFile(io.BytesIO(whole(reply)))
    assert book.read("xl/worksheets/sheet1.xml").count(b"<row ") == 1701
    head = ann.head(f"{path}?format=csv")
    assert (head.status_code, head["X-Sluice-Rows"], head.content) == (200, "1700", b"")
    assert len(gateway.engine.journal) == ran


def test_values_and_the_row_limit(rest, gateway) -> None:
    rows = [(2**60, 'a,"b"', Decimal("1.50")), (None, "", None), (1, None, None)]
    gateway.engine.answers = lambda sql: FakeAnswer(KINDS, rows)
    ann = rest("ann")
    path = results(ann, "select all", row_limit=2)
    reply = ann.get(path, {"format": "csv"})
    assert reply["X-Sluice-Truncated"] == "true"
    assert whole(reply) == f'n,t,d\r\n{2**60},"a,""b""",1.50\r\n,"",\r\n'.encode()
    reply = ann.get(path, {"format": "parquet"})
    table = parquet.read_table(io.BytesIO(whole(reply)))
    assert [str(field.type) for field in table.schema] == [
        *("int64", "string", "decimal128(38, 2)")
    ]


def test_only_the_owner_and_only_when_finished(rest, gateway) -> None:
    ann = rest("ann")
    path = results(ann, "SELECT 1")
    for form in ("csv", "parquet"):
        assert rest("bob").get(path, {"format": form}).status_code == 404
        assert APIClient().get(path, {"format": form}).status_code == 401
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    one = ann.post(URL, {"sql": "select slow"}, format="json").json()["id"]
    early = ann.get(f"{URL}/{one}/results", {"format": "csv"})
    assert (early.status_code, early.json()["code"]) == (409, "no_result")
    ann.post(f"{URL}/{one}:cancel")
    assert ann.get(path, {"format": "csv", "page_token": "p1"}).status_code == 400
    assert ann.get(path, {"format": "ods"}).status_code == 400


def test_few_at_a_time(rest) -> None:
    ann = rest("ann")
    path = results(ann, "SELECT 1")
    held = [downloads.DOWNLOADS.take("ann") for _ in range(2)]
    refused = ann.get(path, {"format": "csv"})
    assert (refused.status_code, refused["Retry-After"]) == (429, "3")
    assert refused.json()["code"] == "too_many_downloads"
    for place in held:
        place.give_back()
    assert whole(ann.get(path, {"format": "csv"})) == b"1\r\n1\r\n"


def test_a_file_that_breaks_off_does_not_look_whole(rest, monkeypatch) -> None:
    ann = rest("ann")
    path = results(ann, "SELECT * FROM range(1700)", row_limit=5000)
    asked = client._pages_at
    monkeypatch.setattr("gateway.rows.PART_BYTES", 1)

    def away(user, statement_id, *, page, several=False):
        if page > 1:
            raise client.GatewayAway("gone")
        return asked(user, statement_id, page=page, several=several)

    monkeypatch.setattr(client, "_pages_at", away)
    reply = ann.get(path, {"format": "csv"})
    with pytest.raises(client.GatewayAway):
        list(reply.streaming_content)
