"""Changes of a lake table over REST: who sees them, and from where on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from django.conf import settings

from catalog.models import AuditEntry, Table
from ingest.api import replies
from ingest.contract.segments import OPS, Control
from ingest.contract.table import SealedColumn
from ingest.lake.chain import begin_stream, stream_folder, take_over
from ingest.lake.segment_files import SegmentBuilder
from ingest.models import Pipeline
from ingest.pipelines.log_tables import FollowedTables, stream_of
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.sources.row_batches import schema_of
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.world import World

pytestmark = pytest.mark.django_db
COLUMNS = (
    SealedColumn("c0", "id", "bigint"),
    SealedColumn("c1", "name", "string"),
    SealedColumn("c2", "undecided", "string"),
)
SCHEMA = schema_of(COLUMNS, [pa.int64(), pa.string(), pa.string()])


class Stream:
    def __init__(self, world: World) -> None:
        self.table = world.lake("orders").pk
        stream = stream_of(world.source.pk)
        folder = stream_folder(settings.SLUICE_LAKE_URI, stream)
        begin_stream(folder, above=4)
        self.builder = SegmentBuilder(
            take_over(folder, stream=stream, writer="w", server="1:1", begin="0")
        )

    def close(
        self, *rows: tuple[str, int | None, str | None], unsent: bytes = b""
    ) -> int:
        if rows:
            ops, ids, names = zip(*rows, strict=True)
            columns = [
                [OPS.index(op) for op in ops],
                [1] * len(rows),
                [None if name else unsent or None for name in names],
                [*ids],
                [*names],
                ["x"] * len(rows),
            ]
            batch = pa.record_batch(columns, schema=SCHEMA)
            self.builder.add(self.table, 1, batch)
        end = f"lsn:1:1:0/{self.builder.writer.next_number}"
        number = self.builder.close(end=end, committed=1_700_000_000_000_000).number
        Table.objects.filter(pk=self.table).update(last_commit_epoch=number)
        return number


@pytest.fixture
def live(world: World) -> World:
    """`orders` follows its log and has applied all of it; `other` does not."""
    world.live("orders", "other")
    rows = Pipeline.objects.filter(source_table__name="orders")
    rows.update(capture="log", due_at=None, load_name="L")
    return world


def test_who_begins_reads_the_table_and_goes_on(live: World, admin: Any) -> None:
    stream = Stream(live)
    stream.close(("insert", 1, "a"))
    path = f"tables/{stream.table}/changes"
    begun = admin("GET", path).json()
    assert (begun["items"], begun["is_last"]) == ([], True)
    long = "ü" * 5_000
    stream.close(("update", 1, long), ("update", 2, None), unsent=b"\2")
    stream.close(("delete", 2, None), ("delete", 3, "c"), ("truncate", None, None))
    page = admin("GET", f"{path}?after={begun['after']}&limit=4").json()
    compare(replies.Changes(), page)
    found = [(c["op"], c["key"], c["row"], c["before"]) for c in page["items"]]
    assert found == [
        ("update", {"id": 1}, {"id": 1, "name": long}, None),
        ("update", {"id": 2}, {"id": 2}, None),
        ("delete", {"id": 2}, None, {"id": 2}),
        ("delete", {"id": 3}, None, {"id": 3, "name": "c"}),
    ]
    assert page["items"][1]["unchanged"] == ["name"]
    assert page["items"][0]["position"] == "lsn:1:1:0/7"
    assert page["items"][0]["committed_at"] == "2023-11-14T22:13:20Z"
    rest = admin("GET", f"{path}?after={page['after']}").json()
    assert [(c["op"], c["key"], c["row"]) for c in rest["items"]] == [
        ("truncate", {}, None)
    ]
    again = admin("GET", f"{path}?after={page['items'][2]['after']}").json()
    assert [c["op"] for c in again["items"]] == ["delete", "truncate"]
    # behind what the lake has applied there is nothing yet
    stream.close(("insert", 5, "e"))
    Table.objects.filter(pk=stream.table).update(last_commit_epoch=8)
    end = admin("GET", f"{path}?after={rest['after']}").json()
    assert (end["items"], end["is_last"]) == ([], True)


def test_what_was_emptied_of_a_sharded_table_is_said_by_its_shard(
    live: World, admin: Any
) -> None:
    stream = Stream(live)
    stream.close()
    path = f"tables/{stream.table}/changes"
    begun = admin("GET", path).json()
    Table.objects.filter(pk=stream.table).update(record_key=["name", "id"])
    stream.close(("truncate", None, "3"))
    (change,) = admin("GET", f"{path}?after={begun['after']}").json()["items"]
    assert (change["op"], change["key"], change["row"]) == (
        "truncate", {"name": "3"}, None,
    )  # fmt: skip


def test_only_who_sees_every_row_and_column_sees_changes(
    live: World, admin: Any, ann: Any
) -> None:
    stream = Stream(live)
    stream.close()
    path = f"tables/{stream.table}/changes"
    grant = {"principal": "user:ann", "on": "lake.shop.orders"}
    assert ann("GET", path).status_code == 404
    admin("POST", "grants", {**grant, "privilege": "select", "columns": ["id"]})
    assert ann("GET", path).status_code == 404
    admin("POST", "grants", {**grant, "privilege": "discover"})
    assert ann("GET", path).json()["code"] == "missing_privilege"
    admin("POST", "grants", {**grant, "privilege": "select"})
    assert ann("GET", path).status_code == 200
    rule = {"applies_to": ["everyone"], "except": ["user:root"]}
    for limit in (
        {"kind": "row_filter", "on": "lake.shop.orders", "expression": "id > 1"},
        {"kind": "mask", "on": "lake.shop.orders.name", "mask": "redact"},
    ):
        made = admin("POST", "rules", {**rule, **limit})
        assert made.status_code == 201, made.content
        refused = ann("GET", path)
        assert (refused.status_code, refused.json()["code"]) == (403, "changes_limited")
        assert admin("GET", path).status_code == 200
        admin("DELETE", f"rules/{made.json()['id']}")
    page = ann("GET", path)
    assert page.status_code == 200
    stream.close(("insert", 1, "a"))
    Table.objects.filter(pk=stream.table).update(last_commit_epoch=99)
    assert not AuditEntry.objects.filter(action="table.changes").exists()
    assert ann("GET", f"{path}?after={page.json()['after']}").json()["items"]
    line = AuditEntry.objects.get(action="table.changes")
    assert (line.actor, line.object) == ("ann", "lake.shop.orders")
    assert line.facts == {"rows": 1}


def test_what_cannot_be_read_is_refused_by_name(live: World, admin: Any) -> None:
    stream = Stream(live)
    stream.close()
    path = f"tables/{stream.table}/changes"

    def refused(query: str, at: str = path) -> tuple[int, str]:
        reply = admin("GET", f"{at}{query}")
        return reply.status_code, reply.json()["code"]

    other = f"tables/{live.lake('other').pk}/changes"
    assert refused("", other) == (400, "not_followed")
    assert refused("?after=WyJ4Il0") == (400, "bad_after")
    assert refused("?limit=1001") == (400, "invalid_limit")
    after = admin("GET", path).json()["after"]
    cut = [Control("cut", stream.table, load="M")]
    number = stream.builder.close(end="lsn:1:1:0/8", controls=cut).number
    assert admin("GET", f"{path}?after={after}").status_code == 200, "it is not in"
    Table.objects.filter(pk=stream.table).update(last_commit_epoch=number)
    assert refused(f"?after={after}") == (409, "changes_replaced")
    Pipeline.objects.update(state="CATCHING_UP")
    assert refused("") == (400, "not_now")


def test_its_follower_knows_how_long_changes_are_kept(live: World) -> None:
    read = FollowedTables()

    def kept() -> float:
        (one,) = read.read([live.source.pk])[live.source.pk]
        return one.keep_seconds

    assert kept() == 0
    change_policy(live.source, None, {"keep_changes_seconds": 60})
    assert kept() == 60
    change_table_policy(live.pipeline("orders"), {"keep_changes_seconds": 90})
    assert kept() == 90
