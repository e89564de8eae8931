"""Source tables of a sharded table that are not there any more: told, decided, back."""

from __future__ import annotations

import pytest

from catalog.access.policy import Principal
from catalog.models import AuditEntry, Table
from catalog.selectors.tables import securable_of
from core.errors import InvalidRequest
from ingest.actions.registry import of_table
from ingest.alerts.triggers import _about_columns
from ingest.contract.following import FollowedTable
from ingest.followers_host import rows
from ingest.maintenance.impact_preview import preview_resync
from ingest.models import Pipeline
from ingest.pipelines import gone_shards, shards, table_commands
from ingest.pipelines.new_tables import take_new_tables
from ingest.pipelines.schema_approval import proposal_of
from ingest.pipelines.schema_diff import source_changed
from ingest.planning.plan import plan_from_json
from tests.integration.ingest.test_new_tables import discovered
from tests.integration.ingest.test_shards import create_of, join, live, unread_of
from tests.integration.ingest.test_shards import shops as shops
from tests.integration.ingest.world import World

pytestmark = pytest.mark.django_db


def dropped(shops: World) -> Pipeline:
    """A live table, one of whose shards the follower of the log found gone."""
    row = live(shops)
    gone_shards.note_gone(row, ["shop_1.orders"])
    return row


def offers(row: Pipeline) -> dict[str, bool]:
    """By action, what REST says of the lake table."""
    assert row.lake_table is not None
    root = Principal("root", is_admin=True)
    found = of_table(root, row.lake_table.pk, securable_of(row.lake_table))
    return {str(each["name"]): bool(each["is_possible"]) for each in found}


def gone_of(row: Pipeline) -> dict[str, str]:
    return {one.name: one.gone for one in create_of(row).shards if one.gone}


def test_one_that_is_gone_waits_for_a_decision_and_the_others_go_on(
    shops: World,
) -> None:
    row = dropped(shops)
    row.refresh_from_db()
    assert (row.state, gone_of(row)) == ("LIVE", {"shop_1.orders": "undecided"})
    assert [shards.name_of(one) for one in shards.tables_of(row)] == [
        "shop_10.orders", "shop_2.orders",
    ]  # fmt: skip
    assert row.source_table.database.name == "shop_10"
    assert source_changed(row, plan_from_json(row.plan)) is None
    told = _about_columns(row)
    assert told is not None
    assert (told.code, told.repair) == ("shards_gone", "leave-shards")
    (matter,) = proposal_of(row.lake_table).shards
    assert (matter.message, matter.names) == (told.message, ("shop_1.orders",))
    assert offers(row)["leave-shards"]
    # who looks through what came does not take it for a new one
    discovered(shops)
    assert take_new_tables() == 0
    assert shards.not_taken(row) == []


@pytest.mark.parametrize(
    ("decision", "gone"), [("keep", "kept"), ("delete", "deleted")]
)
def test_what_is_decided_of_one_that_is_gone(
    shops: World, decision: str, gone: str
) -> None:
    row = dropped(shops)
    assert row.lake_table is not None
    said = [str(line) for line in gone_shards.describe(row.lake_table)]
    assert said[0] == "Gone at the source, their rows are here still: shop_1.orders"
    gone_shards.decide(row.lake_table, actor="ann", rows=decision)
    row.refresh_from_db()
    assert gone_of(row) == {"shop_1.orders": gone}
    assert _about_columns(row) is None
    assert not offers(row)["leave-shards"]
    assert AuditEntry.objects.filter(action="table.leave-shards").count() == 1
    with pytest.raises(InvalidRequest, match=r"no shard of .* is gone"):
        gone_shards.decide(row.lake_table, actor="ann", rows=decision)
    # a resync reads what is there; rows that it takes away are named before
    will = [str(line) for line in preview_resync(row.lake_table).will]
    assert any("shop_1.orders" in line for line in will) is (decision == "keep")
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: shops.jobs("resync")[-1].state == "SUCCEEDED")
    row.refresh_from_db()
    assert [one.value for one in create_of(row).shards] == ["10", "2"]
    assert _about_columns(row) is None


def test_one_that_is_gone_and_comes_again_joins_as_a_new_one(shops: World) -> None:
    row = dropped(shops)
    (again,) = Table.objects.filter(database__name="shop_1", name="orders")
    Table.objects.filter(pk=again.pk).update(status="DISCOVERED", status_reason="")
    row.refresh_from_db()
    assert shards.not_taken(row) == [again]
    join(row)
    shops.until(lambda: shops.jobs("repair")[-1].state == "SUCCEEDED")
    row.refresh_from_db()
    assert (unread_of(row), gone_of(row)) == ([], {})
    assert [one.value for one in create_of(row).shards] == ["10", "2", "1"]
    assert again in shards.tables_of(row)


def test_the_last_ones_are_not_gone_without_the_table(shops: World) -> None:
    row = live(shops)
    names = ["shop_1.orders", "shop_2.orders", "shop_10.orders"]
    gone_shards.note_gone(row, names)
    row.refresh_from_db()
    assert gone_of(row) == {}
    gone_shards.note_gone(row, names[:2])
    row.refresh_from_db()
    gone_shards.note_gone(row, names)
    row.refresh_from_db()
    assert gone_of(row) == dict.fromkeys(names[:2], "undecided")


@pytest.mark.parametrize(
    ("state", "is_noted"),
    [("LIVE", True), ("PAUSED", True), ("RESYNCING", False), ("NEEDS_RESYNC", False)],
)
def test_what_a_follower_reports_is_noted_where_no_resync_reads_what_there_is(
    shops: World, state: str, is_noted: bool
) -> None:
    row = live(shops)
    assert row.lake_table_id is not None
    told = FollowedTable(row.lake_table_id, "finished", gone=("shop_1.orders",))
    for capture in ("snapshot", "log"):
        Pipeline.objects.update(state=state, capture=capture)
        rows.note_gone([told, FollowedTable(-1, "")])
        row.refresh_from_db()
        expected = capture == "log" and is_noted
        assert gone_of(row) == ({"shop_1.orders": "undecided"} if expected else {})
