"""What a table's policy asks for, described, and which level sets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from catalog.models import Table
from frontend.templatetags.figures import duration, size
from ingest.maintenance import compaction_drivers
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
    "follow": _("appear in the lake table with the next sync"),
    "ask": _("wait for approval on the table's page"),
    "ignore": _("are left out"),
}
_LEVELS = {"datasource": _("datasource %(name)s"), "database": _("database %(name)s")}


def level_words(origin: str) -> str:
    """The level that a setting is from: "database shop.public"."""
    kind, _space, name = origin.partition(" ")
    return str(_LEVELS[kind]) % {"name": name} if kind in _LEVELS else origin


def policy_rows(table: Table) -> list[PolicyRow]:
    """Empty for a table that nothing is carried into any more."""
    pipeline = pipeline_of(table.pk)
    if pipeline is None:
        return []
    policy = policy_of(pipeline)
    labels = {DEFAULT: gettext("default"), OWN: gettext("this table")}
    return [
        PolicyRow(key, title, description, labels.get(origin) or level_words(origin))
        for key, title, description in _described(policy, table)
        for origin in (policy.origins[key],)
    ]


def _described(policy: Effective, table: Table) -> Iterator[tuple[str, str, str]]:
    yield from _compactions(policy, table)
    late = gettext("%(time)s after its time") % {"time": duration(policy.late_after)}
    yield "late_after_seconds", gettext("The table counts as late"), late
    checked = policy.verification
    every = (
        gettext("every %(time)s") % {"time": duration(checked.every_seconds)}
        if checked.is_on
        else gettext("on request")
    )
    verified = gettext("The table is verified against its source")
    yield "verify_every", verified, every
    most = checked.rows_per_second
    limit = ngettext(
        "at most %(count)s row per second", "at most %(count)s rows per second", most
    )
    reads = limit % {"count": most} if most else gettext("as fast as it goes")
    yield "verify_rows_per_second", gettext("An automatic verification reads"), reads
    fresh = gettext("within %(time)s") % {"time": duration(policy.freshness)}
    yield (
        "freshness_seconds",
        gettext("Changes of a followed log are in the lake"),
        fresh,
    )
    stopped = gettext("A log waits for a stopped table")
    waiting = gettext("at most %(size)s") % {"size": size(policy.max_waiting)}
    yield "max_waiting_bytes", stopped, waiting
    longest = gettext("for %(time)s") % {"time": duration(policy.max_waiting_seconds)}
    yield "max_waiting_seconds", stopped, longest
    kept = gettext("for %(time)s") % {"time": duration(policy.keep_changes)}
    yield (
        "keep_changes_seconds",
        gettext("Changes of a followed log can be read one by one"),
        kept if policy.keep_changes else gettext("while they wait"),
    )
    added = gettext("Columns added at the source")
    yield "schema_changes", added, str(_FOLLOWED[policy.schema_changes])
    needed = gettext("A resync that is needed")
    is_auto = policy.values["resync"] == "auto"
    how = gettext("begins automatically, three a day at most")
    yield "resync", needed, how if is_auto else gettext("waits for a decision")


def _compactions(policy: Effective, table: Table) -> Iterator[tuple[str, str, str]]:
    keeping, due = policy.keeping, gettext("A compaction is planned")
    many = ngettext(
        "%(count)s commit after the last one",
        "%(count)s commits after the last one",
        keeping.compact_after,
    )
    yield "compact_after", due, many % {"count": keeping.compact_after}
    logs = gettext("at %(size)s of log files") % {"size": size(keeping.log_bytes)}
    yield "compact_log_bytes", due, logs
    times = gettext(
        "at %(ratio)s times the bytes of its base files in log files, from 1 MB of "
        "these on"
    )
    yield "compact_log_ratio", due, times % {"ratio": f"{keeping.log_ratio:g}"}
    age = gettext("when its oldest log file is %(age)s old")
    old = age % {"age": duration(keeping.log_age_seconds)}
    yield "compact_log_age_seconds", due, old
    most = gettext("%(ratio)s bytes written per byte changed")
    goal = most % {"ratio": f"{keeping.max_write_amplification:g}"}
    yield "max_write_amplification", gettext("Compactions keep within"), goal
    yield "maintenance_window", gettext("Maintenance window"), _hours(policy)
    yield "compact_driver", gettext("It runs"), _driver(table)
    stuck = gettext("after %(time)s") % {"time": duration(keeping.stuck_after_seconds)}
    waits = gettext("It counts as waiting for too long")
    yield "stuck_after_seconds", waits, stuck


def _hours(policy: Effective) -> str:
    quiet = policy.quiet
    if quiet is None:
        return gettext("at any time")
    return gettext("from %(start)s to %(end)s only, %(timezone)s time") % {
        "start": f"{quiet.start:%H:%M}",
        "end": f"{quiet.end:%H:%M}",
        "timezone": quiet.timezone,
    }


def _driver(table: Table) -> str:
    own = compaction_drivers.by_policy(table)
    if own is None:
        return gettext("in the shared driver")
    cores = ngettext(
        "in a driver of its own, %(memory)s and %(count)s core",
        "in a driver of its own, %(memory)s and %(count)s cores",
        own.cores,
    )
    return cores % {"memory": own.memory, "count": own.cores}
