"""Alerts: what counts, who wants it, how long to keep trying. Tables, no rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ingest.alerts import mail, messages, rules
from ingest.alerts.rules import (
    Absence,
    Subscription,
    excused,
    left_after,
    stuck_finding,
    wants,
)
from ingest.alerts.smtp_spec import Smtp, parse_smtp
from ingest.alerts.webhook import Egress, check_url, sign
from ingest.maintenance.facts import Conflict, LakeFacts, Pending, PlanFacts, TakenLock
from ingest.maintenance.score import BROKEN_CODES, score
from ingest.pipelines.policies.maintenance import MaintenancePolicy
from ingest.pipelines.policies.policy import due_since, late_at
from ingest.pipelines.policies.schedule import Cron, Every, Manual

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LOADS = frozenset({"snapshot", "resync"})


@pytest.mark.parametrize(
    ("wanted", "kind", "event", "expected"),
    [
        (Subscription(), "late", "opened", True),
        (Subscription(), "late", "recovered", True),
        (Subscription(("late",)), "late", "opened", True),
        (Subscription(("late",)), "stuck", "opened", False),
        (Subscription(("late",)), "late", "recovered", False),
        (Subscription(("late",)), "late", "closed", False),
        (Subscription(("late", "recovered")), "late", "closed", True),
        (Subscription(("late", "recovered")), "stuck", "recovered", False),
        (Subscription(database="shop"), "late", "opened", True),
        (Subscription(database="crm"), "late", "opened", False),
        (Subscription(database="shop", table="orders"), "late", "opened", True),
        (Subscription(database="shop", table="people"), "late", "opened", False),
    ],
)
def test_who_wants_what(wanted, kind, event, expected):
    found = wants(wanted, kind=kind, event=event, database="shop", table="orders")
    assert found is expected


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Manual(), None),
        (Every(60), NOW + timedelta(seconds=60 + 900)),
        # at half past two each night: ten past twelve is not late
        (Cron("30 2 * * *"), datetime(2026, 3, 3, 2, 45, tzinfo=UTC)),
        (Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 3, 3, 1, 45, tzinfo=UTC)),
    ],
)
def test_when_a_table_counts_as_late(schedule, expected):
    assert late_at(schedule, NOW, 900) == expected


@pytest.mark.parametrize(
    ("cron", "began", "behind", "expected"),
    [
        # its sync began in time and ended well: the next one is owed
        ("30 2 * * *", "2026-03-02T01:30:01", 0, "2026-03-03T01:45"),
        ("30 * * * *", "2026-03-02T01:30:01", 0, "2026-03-02T02:45"),
        ("30 2 * * *", "2026-03-02T01:30:01", 600, "2026-03-03T01:45"),
        # an hour of rows is missing: that was asked for, and waits
        ("30 2 * * *", "2026-03-02T01:30:01", 3600, "2026-03-02T01:45"),
        # half past two is jumped over, and comes twice
        ("30 2 * * *", "2026-03-29T01:00:01", 0, "2026-03-30T00:45"),
        ("30 2 * * *", "2026-10-25T00:30:01", 0, "2026-10-26T01:45"),
        ("30 * * * *", "2026-10-25T00:30:01", 0, "2026-10-25T01:45"),
    ],
)
def test_a_sync_that_was_asked_for_in_time_is_not_late(cron, began, behind, expected):
    since = due_since(utc(began), behind, 900)
    assert late_at(Cron(cron, "Europe/Berlin"), since, 900) == utc(expected)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def issue(code, points=10, instant=None):
    return {
        "code": code,
        "points": points,
        "reason": f"{code} of old",
        "repair": "rollback",
        "instant": instant,
    }


@pytest.mark.parametrize(
    ("issues", "cause", "message"),
    [
        ([], None, None),
        ([issue("log_ratio"), issue("bucket_skew")], None, None),
        ([issue("write_stuck", 10, "1")], "write_stuck:1", "write_stuck of old"),
        (
            [
                issue("write_stuck", 10, "2"),
                issue("plan_unreadable", 50, "1"),
                issue("x"),
            ],
            "plan_unreadable:1,write_stuck:2",
            "plan_unreadable of old (and 1 more)",
        ),
        *[
            ([issue(code)], f"{code}:", f"{code} of old")
            for code in sorted(BROKEN_CODES)
        ],
    ],
)
def test_what_stands_still_or_is_broken(issues, cause, message):
    found = stuck_finding(issues)
    assert (found.cause if found else None) == cause
    assert (found.message if found else None) == message


def test_nobody_has_to_look_at_a_page_to_hear_of_a_heavy_loss():
    gone = PlanFacts(is_readable=False)
    facts = LakeFacts(
        at="2026-03-02T12:00:00Z",
        buckets=4,
        highest_bucket=7,
        strays=1,
        is_gone=True,
        altered=("hoodie.table.version is 8, not 9",),
        taken=(TakenLock("write", "9", 8),),
        conflicts_total=1,
        conflicts=(Conflict("", 3),),
        pending=(Pending("1", "compaction", "INFLIGHT", 99, False, 0, gone),),
    )
    issues = score(facts, MaintenancePolicy(), differs="resync").issues
    heavy = {issue.code for issue in issues if issue.points >= 30}
    # what differs from the source has an alert of its own
    assert heavy == BROKEN_CODES | {"plan_unreadable", "differs_from_source"}


@pytest.mark.parametrize(
    ("sources", "done", "left"),
    [
        (["sync"], "sync", []),
        (["sync"], "compact", ["sync"]),
        (["compact", "sync"], "sync", ["compact"]),
        (["compact", "sync", "snapshot"], "resync", ["compact"]),
        (["verify"], "snapshot", ["verify"]),
        ([], "sync", []),
    ],
)
def test_what_a_success_takes_back(sources, done, left):
    assert left_after(sources, done, LOADS) == left


def test_patience_has_bounds():
    waits = [rules.wait_after(n) for n in range(1, 21)]
    assert waits[:4] == [5, 10, 20, 40]
    assert waits == sorted(waits)
    assert waits[-1] == 3600
    for attempts, age, expected in [
        (1, 0, False),
        (19, 2, False),
        (20, 0, True),
        (1, 4, True),
    ]:
        found = rules.has_given_up(attempts, NOW - timedelta(days=age), NOW)
        assert found is expected
    for hours, expected in [(None, False), (23, False), (24, True)]:
        since = None if hours is None else NOW - timedelta(hours=hours)
        assert rules.is_to_pause(since, NOW) is expected


NIGHT = Absence(NOW, NOW + timedelta(hours=8))


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        # late before nobody was there, due in the night, soon after it, long after it
        (-1.0, -1.0),
        (0.0, 8.25),
        (3.0, 8.25),
        (8.1, 8.25),
        (9.0, 9.0),
    ],
)
def test_a_night_in_which_nobody_was_there_is_nobodys_fault(hours, expected):
    moment = NOW + timedelta(hours=hours)
    assert excused(moment, NIGHT, 900) == NOW + timedelta(hours=expected)
    assert excused(moment, None, 900) == moment


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [
        ("stuck", "opened", "lake.a.b is stuck or broken"),
        ("late", "recovered", "Resolved: lake.a.b (it was late)"),
        ("failed", "closed", "lake.a.b: alert closed (it had failed)"),
    ],
)
def test_what_is_over_is_told_as_past(kind, event, expected):
    alert = {"kind": kind, "name": "lake.a.b"}
    assert messages.headline({"event": event, "alert": alert}) == expected
    assert set(messages.WORDS) == set(rules.ALERTS) == set(rules.AGAIN)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", None),
        ("smtp://mail", Smtp("mail", 25)),
        ("smtp://u%40x:p%3A@mail:587", Smtp("mail", 587, "u@x", "p:")),
        ("smtps://mail", Smtp("mail", 465, tls="implicit")),
        ("smtp://mail:25?tls=off", Smtp("mail", 25, tls="off")),
        ("smtp://u:p@127.0.0.1:25?tls=off", Smtp("127.0.0.1", 25, "u", "p", "off")),
        ("smtp://u:p@mail?tls=off", ValueError),
        ("smtps://mail?tls=off", ValueError),
        ("smtp://mail?verify=no", ValueError),
        ("smtp://mail/path", ValueError),
        ("mail:25", ValueError),
    ],
)
def test_the_mail_server(url, expected):
    if expected is ValueError:
        with pytest.raises(ValueError, match=r"expected|only|readable"):
            parse_smtp(url)
    else:
        assert parse_smtp(url) == expected


def test_addresses_of_the_internet_pass_and_what_is_allowed():
    inside = Egress(allowed=("10.1.0.0/16",), denied=("10.1.9.0/24",))
    for url in (
        "https://1.1.1.1/x?y=1",
        "http://[2606:4700::1111]:8080",
        "http://10.1.2.3",
    ):
        assert check_url(url, inside) == url
    for url in ("http://10.1.9.3", "http://10.2.0.1", "http://[64:ff9b::a02:1]"):
        with pytest.raises(Exception, match=r"10\."):
            check_url(url, inside)


def test_a_signature_is_over_time_and_body():
    one = sign("s" * 16, 1, b"{}")
    assert one.startswith("v1=")
    assert (
        len(
            {
                one,
                sign("s" * 16, 2, b"{}"),
                sign("s" * 16, 1, b"{ }"),
                sign("t" * 16, 1, b"{}"),
            }
        )
        == 4
    )


@pytest.mark.parametrize(
    "bad", ["", "a", "a@", "a b@c.d", "a@b.c,d@e.f", "A <a@b.c>", "a@b.c\n"]
)
def test_only_one_plain_mailbox_is_an_address(bad):
    with pytest.raises(Exception, match="e-mail address"):
        mail.check_address(bad)
