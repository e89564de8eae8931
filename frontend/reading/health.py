"""A lake table's health as its page shows it: what is wrong, what that holds up, and
which action helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext, ngettext

from catalog.access.policy import Principal
from catalog.models import Table
from core.sentences import with_sentences
from frontend.charts import Chart
from frontend.reading.alerts import Row as AlertRow
from frontend.reading.alerts import rows_of
from frontend.reading.health_charts import (
    TimelineChart,
    called,
    charts_of,
    timeline_of,
    tone_of,
)
from frontend.reading.tables import TablePipeline
from frontend.templatetags.figures import size
from ingest.actions.registry import ACTIONS
from ingest.alerts.selectors import alerts_for
from ingest.maintenance.buckets import Suggestion, suggest_buckets
from ingest.maintenance.facts import LakeFacts, Pending, facts_from
from ingest.maintenance.health_list import SEVERE
from ingest.maintenance.remedies import ways_out
from ingest.maintenance.table_action import TableAction
from ingest.maintenance.write_amplification import Written, written_from
from ingest.models import Pipeline, TableHealth
from ingest.models.states import RETIRED
from ingest.planning.facts import LOG

STEPS = {
    "execute": "A planned compaction runs",
    "schedule": "A compaction is planned and runs",
    "wait": "Nothing yet",
    "decide": "You decide",
}
# issues, for readers who do not know Hudi; the reason follows
TITLES = {
    "table_failed": "The table failed",
    "syncs_failing": "Its syncs fail",
    "needs_resync": "The table needs a resync",
    "table_paused": "The table is paused",
    "plan_unreadable": "The table cannot be read or written",
    "bucket_conflict": "Rows may be duplicated",
    "bucket_drift": "Another program wrote rows into the wrong buckets",
    "files_gone": "The table's files are gone from the lake",
    "properties_drift": "The table's properties were externally modified",
    "stray_files": "Orphan files",
    "differs_from_source": "Rows differ from the source",
    "compaction_stuck": "A compaction started and never finished",
    "compaction_waits": "A planned compaction is overdue",
    "lock_taken": "The table's lock was taken externally: no job can write",
    "log_ratio": "Readers merge too much while they read",
    "write_stuck": "A write started and never finished",
    "compaction_late": "Too many commits since the last compaction",
    "many_logs": "Too many log files in one file group",
    "readers_goal": "Reading is slow, and the budget allows no compaction",
    "write_amplification": "More bytes were written than the policy allows",
    "long_timeline": "The timeline is long, and every read lists it",
    "metadata_table": "Another program writes to this table",
    "many_rollbacks": "Jobs of this table keep being interrupted",
    "bucket_skew": "One bucket is much larger than the others",
    "small_files": "Many small files",
}
# what Compact is to a compaction that was begun
GO_ON = replace(
    ACTIONS["compact"],
    title="Try again",
    does="Removes what the unfinished attempt wrote, and executes its plan again.",
)


@dataclass(frozen=True, slots=True)
class IssueRow:
    """A reason with the action that helps, when this person may ask for it. explains:
    the action's sentence, said where it comes first; helps: its word, for all, and
    missing: why it cannot be asked for."""

    code: str
    points: int
    title: str
    reason: str
    action: TableAction | None
    explains: bool
    instant: str
    helps: str = ""
    missing: str = ""

    @property
    def tone(self) -> str:
        return "bad" if self.points >= SEVERE else "warn"


@dataclass(frozen=True, slots=True)
class StepRow:
    word: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True)
class PendingRow:
    """Unfinished work: what it is, what it holds up, and the ways out of it: each with
    the instant that it is asked for."""

    pending: Pending
    what: str
    worker: str
    holds: list[str]
    ways: list[tuple[TableAction, str]]


@dataclass(frozen=True, slots=True)
class Health:
    """tone: a CSS class. facts: None before the first check. care: actions that need no
    trouble to be of use."""

    row: TableHealth | None
    tone: str = "idle"
    issues: tuple[IssueRow, ...] = ()
    steps: tuple[StepRow, ...] = ()
    pending: tuple[PendingRow, ...] = ()
    care: tuple[TableAction, ...] = ()
    timeline: TimelineChart | None = None
    charts: tuple[Chart, ...] = ()
    facts: LakeFacts | None = None
    written: Written | None = None
    fit: Suggestion | None = None


def health_for(table: Table, pipeline: TablePipeline) -> Health:
    able = {action.name: action for action in (*pipeline.actions, *pipeline.repairs)}
    care = tuple(each for each in able.values() if each.is_care)
    row = TableHealth.objects.filter(table=table).first()
    if row is None or not row.facts:
        return Health(row)
    facts = facts_from(row.facts)
    written = written_from(row.facts.get("written", {}))
    return Health(
        row,
        tone_of(row.score),
        tuple(_issues(row.issues, able, pipeline.missing)),
        tuple(_step(step) for step in row.plan),
        tuple(_pending(one, able) for one in facts.pending),
        care,
        timeline_of(facts),
        tuple(charts_of(facts, row.trend, written)),
        facts,
        written,
        suggest_buckets(facts),
    )


def open_alerts(principal: Principal, table: Table) -> list[AlertRow]:
    """Of this table and of the log that it is read from, the newest first."""
    read = Pipeline.objects.filter(lake_table=table, capture=LOG)
    sources = read.exclude(state=RETIRED).values("source_table__database__datasource")
    about = Q(table=table) | Q(datasource__in=sources)
    rows = alerts_for(principal).filter(about, closed_at__isnull=True)
    return rows_of(principal, list(rows.order_by("-id")))


def _issues(
    stored: list[dict[str, Any]],
    able: Mapping[str, TableAction],
    missing: Mapping[str, str],
) -> list[IssueRow]:
    rows: list[IssueRow] = []
    explained: set[tuple[str, str]] = set()
    for issue in map(with_sentences, stored):
        name, instant = issue.get("repair") or "", str(issue.get("instant") or "")
        action = able.get(name)
        row = IssueRow(
            issue["code"],
            issue["points"],
            _title(issue),
            issue["reason"],
            action,
            explains=action is not None and (name, instant) not in explained,
            instant=instant,
            helps=gettext(ACTIONS[name].title) if name in ACTIONS else "",
            missing=missing.get(name, ""),
        )
        explained.add((name, instant))
        rows.append(row)
    return rows


def _title(issue: dict[str, Any]) -> str:
    """Of unfinished work, what it is."""
    if issue["code"] == "write_stuck" and issue.get("action"):
        what = called(issue["action"], issue["state"])
        return gettext("%(what)s, and no job continues it") % {"what": what}
    title = TITLES.get(issue["code"])
    return gettext(title) if title else ""


def _step(step: dict[str, Any]) -> StepRow:
    reason = with_sentences(step)["reason"]
    return StepRow(STEPS.get(step["step"], ""), reason, step.get("at") or "")


def _pending(one: Pending, able: dict[str, TableAction]) -> PendingRow:
    worker = _worker(is_held=one.is_held)
    ways = () if one.is_held and one.is_readable else ways_out(one)
    offered = [
        (_called_here(able[way.repair], one), way.instant)
        for way in ways
        if way.repair in able
    ]
    return PendingRow(one, called(one.action, one.state), worker, _holds(one), offered)


def _worker(*, is_held: bool) -> str:
    return gettext("a job works on it") if is_held else gettext("no job works on it")


def _called_here(way: TableAction, one: Pending) -> TableAction:
    is_begun = way.name == GO_ON.name and one.state == "INFLIGHT"
    return GO_ON if is_begun else way


def _holds(one: Pending) -> list[str]:
    """What has to wait until it has ended, in sentences."""
    lines = []
    if not one.is_readable:
        lines.append(
            gettext(
                "Its request file is missing or damaged: the table cannot be read or "
                "written."
            )
        )
    elif one.plan is not None and one.plan.groups:
        text = ngettext(
            "Compaction: %(count)s file group with %(logs)s of log files is not "
            "compacted again, and cleaning keeps its files.",
            "Compaction: %(count)s file groups with %(logs)s of log files are not "
            "compacted again, and cleaning keeps their files.",
            one.plan.groups,
        )
        said = {"count": one.plan.groups, "logs": size(one.plan.log_bytes)}
        lines.append(text % said)
    if one.behind:
        text = ngettext(
            "Archival: %(count)s later instant stays on the timeline, which every read "
            "lists.",
            "Archival: %(count)s later instants stay on the timeline, which every read "
            "lists.",
            one.behind,
        )
        lines.append(text % {"count": one.behind})
    return lines
