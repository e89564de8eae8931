"""Real tables of a running product are broken from outside, all at once; each is told
by its health, previewed and repaired over REST, with drivers killed in the middle.

Rows are compared, by hash, with the source before and afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.outsider import TOKEN
from tests.acceptance.ward import SOURCE, Patient, Ward
from tests.product import Product
from tests.waiting import wait_for

# What each repair does to a table is shown by tests/spark, in every run.
pytestmark = [pytest.mark.timeout(2400), pytest.mark.long]

# what becomes of it → the code of its issue, and the repair that the issue names
BROKEN = {
    "drifted": ("bucket_drift", "deduplicate"),
    "altered": ("properties_drift", "rollback"),
    "halved": ("compaction_stuck", "rollback"),
    "killed": ("write_stuck", "rollback"),
    "locked": ("lock_taken", "rollback"),
    "unasked": ("plan_unreadable", "unschedule-compaction"),
    "outdated": ("compaction_waits", "compact"),
}
PLANNED = ("halved", "unasked", "outdated")


@pytest.fixture(scope="module")
def ward(product: Product) -> Iterator[Ward]:
    with product.source() as admin:
        admin.execute(f"CREATE DATABASE {SOURCE}")
    with product.source(SOURCE) as source:
        yield Ward(product, source)


def test_broken_tables_are_repaired_over_rest_with_drivers_killed(ward: Ward) -> None:
    tables = {p.name: p for p in ward.admit(*BROKEN)}
    prepare(tables)
    before = {name: one.source_hash() for name, one in tables.items()}
    for name, one in tables.items():
        assert one.lake_hash() == before[name], name
    kill_committer(ward, tables["killed"])
    corrupt(tables)
    wait_until_told(tables)
    assert tables["drifted"].lake_hash() != before["drifted"]
    repair(ward, tables)
    for name, one in tables.items():
        assert one.lake_hash() == before[name], f"{name} after its repair"
    go_on(tables)


def prepare(tables: dict[str, Patient]) -> None:
    """A change in each; in some it plans a compaction that waits."""
    for name in PLANNED:
        tables[name].keep_plans()
    for one in tables.values():
        one.change("first")
        one.ask(":sync")
    for one in tables.values():
        one.done(":sync")
    # an old plan, and changes since
    tables["outdated"].change("second")
    tables["outdated"].sync()


def kill_committer(ward: Ward, one: Patient) -> None:
    """The driver dies between the beginning of a commit and its end; nobody goes on
    with its work."""
    timeline = one.path / ".hoodie" / "timeline"
    begun = set(timeline.glob("*.deltacommit.inflight"))
    one.change("never seen")
    driver = ward.driver()
    job = one.ask(":sync")["id"]
    wait_for_file(timeline, "*.deltacommit.inflight", begun)
    ward.kill_driver(driver)
    reply = ward.api.call("POST", f"/jobs/{job}:cancel")
    assert reply.status == 202, reply.body
    done = ward.api.wait_job(job)
    assert done["state"] == "CANCELLED", done
    # the rows that it had are as they were
    ward.source.execute(f"UPDATE {one.name} SET v = 'first' WHERE v = 'never seen'")


def wait_for_file(folder: Path, pattern: str, known: set[Path]) -> None:
    wait_for(lambda: set(folder.glob(pattern)) - known, f"a new {pattern}", pause=0.002)


def corrupt(tables: dict[str, Patient]) -> None:
    tables["drifted"].outsider.commit_with_more_buckets(3)
    tables["altered"].outsider.change_properties()
    tables["halved"].outsider.half_compact()
    tables["locked"].outsider.steal_lock()
    tables["unasked"].outsider.lose_request()


def wait_until_told(tables: dict[str, Patient]) -> None:
    for name, (code, verb) in BROKEN.items():
        issue = tables[name].issue(code)
        assert (issue["repair"], len(issue["reason"]) > 20) == (verb, True), issue
        assert tables[name].health()["score"] <= 100 - issue["points"]
    assert str(TOKEN) in tables["locked"].issue("lock_taken")["reason"]
    drifted = tables["drifted"].issue("bucket_drift")["reason"]
    assert "bucket 3" in drifted
    assert "1 bucket" in drifted
    altered = tables["altered"].issue("properties_drift")["reason"]
    assert "COMMIT_TIME_ORDERING" in altered
    assert "EVENT_TIME_ORDERING" in altered


def repair(ward: Ward, tables: dict[str, Patient]) -> None:
    """Each as its health names it. Two are cut off: the one that rewrites rows and
    the one that takes them away; they are run again by themselves."""
    drifted, halved = tables["drifted"], tables["halved"]
    found = drifted.ask(":deduplicate", {"dry_run": True})
    assert found["kind"] == "repair"
    told = drifted.done(":deduplicate")["facts"]
    assert "another number of buckets" in told["summary"]
    cut_off(ward, drifted, ":deduplicate", "*.replacecommit.requested")
    cut_off(ward, halved, ":rollback", "*.rollback.requested", instant=True)
    for name in ("altered", "killed", "locked"):
        previewed(tables[name], ":rollback")
    previewed(tables["unasked"], ":unschedule-compaction")
    previewed(tables["outdated"], ":unschedule-compaction", replan=True)
    for one in tables.values():
        for verb in one.jobs:
            if verb != ":sync":
                one.done(verb)


def previewed(one: Patient, verb: str, **more: Any) -> None:
    dry = one.ask(verb, {**more, "dry_run": True})
    assert dry["will"], dry
    one.ask(verb, more)


def cut_off(
    ward: Ward, one: Patient, verb: str, sign: str, *, instant: bool = False
) -> None:
    timeline = one.path / ".hoodie" / "timeline"
    known = set(timeline.glob(sign))
    body = {"instant": one.outsider.plan()} if instant else {}
    driver = ward.driver()
    if instant:
        previewed(one, verb, **body)
    else:
        one.ask(verb, body)
    wait_for_file(timeline, sign, known)
    ward.kill_driver(driver)
    job = one.done(verb)
    assert job["attempts"] > 1, job


def go_on(tables: dict[str, Patient]) -> None:
    """Changes arrive, what is planned is executed, nothing costs a point."""
    for one in tables.values():
        one.change("after")
        one.ask(":sync")
    for one in tables.values():
        one.done(":sync")
    for name in PLANNED:
        tables[name].ask(":compact")
    for name in PLANNED:
        tables[name].done(":compact")
    for name, one in tables.items():
        assert one.lake_hash() == one.source_hash(), name
        wait_for(lambda o=one: o.health()["score"] == 100, f"{name} to be well")
