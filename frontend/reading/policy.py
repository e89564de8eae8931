"""What a table's policy asks for, described, and which level sets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.models import Table
from frontend.templatetags.figures import duration, size
from ingest.maintenance import compaction_drivers
from ingest.maintenance.descriptions import counted
from ingest.pipelines.policies.policy import DEFAULT, OWN, Effective
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.transitions import pipeline_of


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """key: as REST and documents call it. origin: the level that says so."""

    key: str
    title: str
    description: str
    origin: str


_FOLLOWED = {
    "follow": "appear in the lake table with the next sync",
    "ask": "wait for approval on the table's page",
    "ignore": "are left out",
}


def policy_rows(table: Table) -> list[PolicyRow]:
    """Empty for a table that nothing is carried into any more."""
    pipeline = pipeline_of(table.pk)
    if pipeline is None:
        return []
    policy = policy_of(pipeline)
    labels = {DEFAULT: "default", OWN: "this table"}
    return [
        PolicyRow(key, title, description, labels.get(origin, origin))
        for key, title, description in _described(policy, table)
        for origin in (policy.origins[key],)
    ]


def _described(policy: Effective, table: Table) -> Iterator[tuple[str, str, str]]:
    keeping, quiet = policy.keeping, policy.quiet
    due = "A compaction is planned"
    many = counted(keeping.compact_after, "commit")
    yield "compact_after", due, f"{many} after the last one"
    yield "compact_log_bytes", due, f"at {size(keeping.log_bytes)} of log files"
    times = f"at {keeping.log_ratio:g} times the bytes of its base files"
    yield "compact_log_ratio", due, f"{times} in log files, from 1 MB of these on"
    age = duration(keeping.log_age_seconds)
    yield "compact_log_age_seconds", due, f"when its oldest log file is {age} old"
    most = f"{keeping.max_write_amplification:g} bytes written per byte changed"
    yield "max_write_amplification", "Compactions keep within", most
    hours = (
        f"from {quiet.start:%H:%M} to {quiet.end:%H:%M} only, {quiet.timezone} time"
        if quiet
        else "at any time"
    )
    yield "quiet_hours", "Maintenance window", hours
    own = compaction_drivers.by_policy(table)
    where = (
        f"in a driver of its own, {own.memory} and {counted(own.cores, 'core')}"
        if own
        else "in the shared driver"
    )
    yield "compact_driver", "It runs", where
    stuck = duration(keeping.stuck_after_seconds)
    yield "stuck_after_seconds", "It counts as waiting for too long", f"after {stuck}"
    late = duration(policy.late_after)
    yield "late_after_seconds", "The table counts as late", f"{late} after its time"
    checked = policy.verification
    every = (
        f"every {duration(checked.every_seconds)}" if checked.is_on else "on request"
    )
    yield "verify_every", "The table is verified against its source", every
    limit = counted(checked.rows_per_second, "row") if checked.rows_per_second else ""
    reads = f"at most {limit} per second" if limit else "as fast as it goes"
    yield "verify_rows_per_second", "An automatic verification reads", reads
    yield (
        "schema_changes",
        "Columns added at the source",
        _FOLLOWED[policy.schema_changes],
    )
