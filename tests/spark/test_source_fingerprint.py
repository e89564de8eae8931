"""Syncs that notice what happened to their source, and verifications that tell it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ingest.contract.positions import from_text, to_text
from tests.long_tests import first_then_long
from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_syncs import CREATE, ROWS, values


@pytest.fixture
def loaded(
    lake_bench: LakeBench, beginnings: Beginnings
) -> tuple[LakeBench, Any, str, dict[str, Any]]:
    """(bench, table spec, bound, signs of the load): rows 1 to 5, a day old."""
    table, facts = beginnings.copy(lake_bench, loaded_from(CREATE, ROWS))
    return lake_bench, table, facts["bound"], facts["source_fingerprint"]


def sync(bench: LakeBench, table: Any, low: str, signs: dict[str, Any]) -> Any:
    spec = bench.sync_spec(table, low)
    assert spec.sync is not None
    return bench.run(replace(spec, sync=replace(spec.sync, source_fingerprint=signs)))


def test_a_table_created_again_stops_the_sync_before_it_reads(loaded: Any) -> None:
    bench, table, low, signs = loaded
    bench.sql("DROP TABLE o")
    bench.sql(CREATE)
    bench.sql("INSERT INTO o VALUES (9, 'new', now() - interval '2 days')")
    refused = sync(bench, table, low, signs)
    assert refused.outcome == "invalid_request"
    assert refused.error.code == "source_recreated"
    assert values(bench, table) == dict.fromkeys(range(1, 6), "load")
    report = assert_done(bench.load(table, kind="resync"))
    assert report.facts["source_fingerprint"]["relation"] != signs["relation"]
    assert_done(sync(bench, table, low, report.facts["source_fingerprint"]))
    assert values(bench, table) == {9: "new"}


def test_a_column_that_was_dropped_and_added_again_is_told(loaded: Any) -> None:
    """Rows that did not change since have its former values in the lake."""
    bench, table, low, signs = loaded
    bench.sql("ALTER TABLE o DROP v")
    bench.sql("ALTER TABLE o ADD v text")
    report = assert_done(sync(bench, table, low, signs))
    assert values(bench, table) == dict.fromkeys(range(1, 6), "load")
    for _ in range(2):
        assert any("v was dropped and added again" in w for w in report.warnings)
        report = assert_done(
            sync(bench, table, low, report.facts["source_fingerprint"])
        )
    report = assert_done(bench.load(table, kind="resync"))
    assert not assert_done(
        sync(bench, table, low, report.facts["source_fingerprint"])
    ).warnings
    assert values(bench, table) == dict.fromkeys(range(1, 6))


MOOD = "CREATE TYPE mood AS ENUM ('sad', 'calm')"
MOODS = (
    "CREATE TABLE o (id int, e mood, v text, at timestamptz DEFAULT now(),"
    " PRIMARY KEY ({key}))"
)
RENAMED = "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"


def moody(bench: LakeBench, *key: str) -> tuple[Any, str, dict[str, Any]]:
    bench.sql(MOOD)
    bench.sql(MOODS.format(key=", ".join(key)))
    bench.sql(
        "INSERT INTO o SELECT g, 'sad', 'load', now() - interval '1 day'"
        " FROM generate_series(1, 3) g"
    )
    table = bench.table("o", key, cursor="at")
    facts = assert_done(bench.load(table)).facts
    bench.sql(RENAMED)
    bench.sql("UPDATE o SET v = 'new', at = now() WHERE id = 1")
    return table, facts["bound"], facts["source_fingerprint"]


def test_a_renamed_label_in_the_key_stops_the_sync(lake_bench: LakeBench) -> None:
    """The changed row would be there under both."""
    bench = lake_bench
    table, low, signs = moody(bench, "id", "e")
    refused = sync(bench, table, low, signs)
    assert (refused.outcome, refused.error.code) == (
        "invalid_request",
        "key_values_changed",
    )
    assert bench.rows(table, "id", "e") == [(n, "sad") for n in (1, 2, 3)]
    report = assert_done(bench.load(table, kind="resync"))
    assert_done(sync(bench, table, low, report.facts["source_fingerprint"]))
    assert bench.rows(table, "id", "e") == [(n, "blue") for n in (1, 2, 3)]


@pytest.mark.parametrize("index", first_then_long(", ADD PRIMARY KEY (region, id)", ""))
def test_a_key_that_is_guaranteed_no_more_stops_the_sync(
    loaded: Any, index: str
) -> None:
    """The twins come one sync apart, and no index leads to the older one: it would have
    been replaced in the lake."""
    bench, table, low, signs = loaded
    bench.sql(
        "ALTER TABLE o ADD region text NOT NULL DEFAULT 'eu', DROP CONSTRAINT o_pkey"
        + index
    )
    bench.sql("INSERT INTO o (id, v, region) VALUES (1, 'us', 'us')")
    refused = sync(bench, table, low, signs)
    assert (refused.outcome, refused.error.code) == (
        "invalid_request",
        "key_not_guaranteed",
    )
    assert values(bench, table) == dict.fromkeys(range(1, 6), "load")
    assert bench.load(table, kind="resync").error.code == "repeated_keys"
    bench.sql("DELETE FROM o WHERE id = 1 AND region = 'eu'")
    # whether it ever was unique is not known
    unknown = {name: sign for name, sign in signs.items() if name != "is_unique"}
    warned = assert_done(sync(bench, table, low, unknown))
    bench.sql("ALTER TABLE o ADD UNIQUE (id)")
    report = assert_done(sync(bench, table, low, signs))
    bench.sql("ALTER TABLE o DROP CONSTRAINT o_id_key")
    now = report.facts["source_fingerprint"]
    assert sync(bench, table, low, now).error.code == "key_not_guaranteed"
    loaded_anew = assert_done(bench.load(table, kind="resync")).facts
    again = assert_done(sync(bench, table, low, loaded_anew["source_fingerprint"]))
    for found, is_told in ((warned, True), (report, False), (again, True)):
        told = [w for w in found.warnings if "among the changed rows only" in w]
        assert bool(told) == is_told
    assert values(bench, table)[1] == "us"


def test_a_sync_of_a_table_that_a_subscription_fills_warns(loaded: Any) -> None:
    bench, table, low, signs = loaded
    # as a subscription registers it
    bench.sql("SET allow_system_table_mods = on")
    bench.sql("INSERT INTO pg_subscription_rel VALUES (1, 'o'::regclass, 'r', NULL)")
    report = assert_done(sync(bench, table, low, signs))
    assert any("a subscription applies what another" in w for w in report.warnings)
    spec = bench.sync_spec(table, low)
    chosen = replace(spec.sync, lag_is_chosen=True)
    assert not assert_done(bench.run(replace(spec, sync=chosen))).warnings


def test_rows_tell_a_truncated_table_from_a_rewritten_one(loaded: Any) -> None:
    bench, table, low, signs = loaded
    bench.sql("VACUUM FULL o")
    report = assert_done(sync(bench, table, low, signs))
    assert not report.warnings
    assert report.facts["source_fingerprint"]["files"] != signs["files"]
    bench.sql("TRUNCATE o")
    bench.sql("INSERT INTO o VALUES (9, 'new', now())")
    refused = sync(bench, table, low, report.facts["source_fingerprint"])
    assert (refused.outcome, refused.error.code) == (
        "invalid_request",
        "source_recreated",
    )
    assert values(bench, table) == dict.fromkeys(range(1, 6), "load")


@pytest.mark.long
def test_cursor_values_ahead_of_the_clock_are_told_and_never_equal(loaded: Any) -> None:
    bench, table, low, signs = loaded
    bench.sql(
        "INSERT INTO o VALUES (7, 'later', '2030-01-01'), (8, 'never', 'infinity')"
    )
    report = assert_done(sync(bench, table, low, signs))
    assert report.facts["ahead"] == 2
    assert any("2 rows have a at ahead" in w for w in report.warnings), report.warnings
    assert not {7, 8} & values(bench, table).keys()
    found = assert_done(bench.verify(table, position=low)).facts
    assert (found["verdict"], found["missing"], found["pending"]) == ("different", 2, 0)
    assert found["ahead"] == 2
    assert "no sync reads them before that time" in found["summary"]
    # loaded, they are equal, and what they will miss is still told
    assert_done(bench.load(table, kind="resync"))
    bench.sql("INSERT INTO o VALUES (9, 'next', now())")
    found = assert_done(bench.verify(table, position=low)).facts
    assert (found["verdict"], found["pending"], found["ahead"]) == ("equal", 1, 2)


def test_rows_that_come_late_are_told_when_they_are_counted_again(loaded: Any) -> None:
    bench, table, low, signs = loaded
    kept = assert_done(sync(bench, table, low, signs)).facts["source_fingerprint"]
    assert (sum(kept["counts"]), kept["late"]) == (0, 0)
    hour = timedelta(hours=1)
    edges = [to_text(from_text(e) - hour, has_zone=True) for e in kept["edges"]]
    kept = {**kept, "edges": edges}
    below = to_text(from_text(low) - hour - timedelta(minutes=7), has_zone=True)
    bench.sql(f"INSERT INTO o VALUES (7, 'late', '{below}'), (8, 'late', '{below}')")
    soon = assert_done(sync(bench, table, low, kept)).facts["source_fingerprint"]
    assert soon["late"] == 0, "it counts every five minutes"
    before = from_text(soon["counted_at"]) - timedelta(minutes=5)
    told = assert_done(
        sync(bench, table, low, {**soon, "counted_at": before.isoformat()})
    )
    assert told.facts["source_fingerprint"]["late"] == 2
    assert any("at least 2 rows" in w for w in told.warnings), told.warnings
    assert not {7, 8} & values(bench, table).keys()
