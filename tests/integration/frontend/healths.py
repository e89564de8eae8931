"""Facts of a lake table in which nothing is wrong, and of one in which much is."""

from __future__ import annotations

from dataclasses import replace

from django.utils import timezone

from catalog.models import Table
from ingest.maintenance.facts import MB, Conflict, Done, LakeFacts, Pending, PlanFacts
from ingest.maintenance.plan import plan_maintenance
from ingest.maintenance.savepoints import Savepoint
from ingest.maintenance.score import STUCK_CODES, score
from ingest.maintenance.write_amplification import Day, Written
from ingest.models import TableHealth
from ingest.pipelines.policies.maintenance import MaintenancePolicy

WELL = LakeFacts(
    at="2026-01-01T02:00:00Z",
    partitions=1,
    groups=4,
    base_files=4,
    base_bytes=90 * MB,
    instants=41,
    compacted_at="2026-01-01T01:00:00Z",
    skew=1.2,
    sizes=(0, 0, 4, 0, 0, 0),
    bucket_bytes=(20 * MB, 25 * MB, 22 * MB, 23 * MB),
    savepoints=(
        Savepoint(
            "20260101001000000",
            "2026-01-01T00:10:01Z",
            "2026-01-01T00:20:00Z",
            "2026-01-08T00:20:00Z",
            later=29,
        ),
    ),
    commits=tuple(
        Done(f"2026010100{n:02d}00000", "deltacommit", 0.4 + n % 7 / 10)
        for n in range(40)
    ),
)
PLAN, GONE = PlanFacts(4, 80 * MB), PlanFacts(is_readable=False)
ILL = replace(
    WELL,
    log_files=90,
    log_bytes=200 * MB,
    most_logs=130,
    old_files=40,
    old_bytes=MB,
    unfinished_files=2,
    unfinished_bytes=MB,
    delta_commits=30,
    bucket_log_bytes=(10 * MB, 9 * MB, 2 * MB, MB),
    rollbacks_of_a_day=6,
    rollbacks=tuple(f"2026010101{n:02d}00000" for n in range(0, 60, 10)),
    conflicts_total=1,
    conflicts=(Conflict("", 3),),
    pending=(
        Pending("20260101010000000", "compaction", "INFLIGHT", 7200, False, 9, PLAN),
        Pending("20260101011000000", "compaction", "REQUESTED", 99, True, 8, GONE),
        Pending("20260101012000000", "deltacommit", "INFLIGHT", 700, False, 7),
    ),
)


WRITTEN = Written(
    days=tuple(
        Day(
            f"2026-01-{day:02d}",
            changed_rows=day * 1000,
            changed_bytes=day * MB,
            upkeep_bytes=3 * MB,
            table_bytes=(80 + day) * MB,
        )
        for day in range(1, 8)
    )
)


def show_health(table: Table, facts: LakeFacts) -> None:
    """The row as a look would have stored it."""
    now = timezone.now()
    health = score(facts, MaintenancePolicy())
    points = [
        {
            "at": f"2026-01-01T0{hour}:00:00Z",
            "score": health.score - hour if hour < health.score else 0,
            "base_bytes": facts.base_bytes,
            "log_bytes": facts.log_bytes + hour * MB,
            "old_bytes": 0,
            "groups": 4,
            "lag": 12.0 + hour,
        }
        for hour in range(3)
    ]
    TableHealth.objects.create(
        table=table,
        score=health.score,
        facts=facts.to_json() | {"written": WRITTEN.to_json()},
        issues=[issue.to_json() for issue in health.issues],
        plan=[
            step.to_json() for step in plan_maintenance(facts, MaintenancePolicy(), now)
        ],
        trend=points,
        pending=len(facts.pending_compactions),
        stuck=sum(issue.code in STUCK_CODES for issue in health.issues),
        collected_at=now,
    )
