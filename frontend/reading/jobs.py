"""Jobs and their logs as pages show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.policy import Principal
from core.models import Job, JobLog
from core.sentences import with_sentences
from core.translation import translated
from frontend.charts import Mark, lane_of
from frontend.reading.health_charts import TimelineChart
from frontend.templatetags.figures import duration
from frontend.templatetags.states import PHASES
from ingest.actions.registry import action_of
from ingest.contract.job import REPAIR, RepairWork
from ingest.pipelines.job_selectors import newest_verification

LOG_PAGE = 200
MOST_STEPS = 20
DONE = {
    "rolled_back": _("Attempts rolled back"),
    "unscheduled": _("Plans taken off the timeline"),
    "planned": _("Planned again"),
    "taken_away": _("Commits removed"),
}
DIFFERENCES = {
    "missing": _("Missing in the lake"),
    "extra": _("Only in the lake"),
    "different": _("With other values"),
}


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order of time. `older` is the cursor of the page before, or None."""

    lines: list[JobLog]
    older: int | None


def log_of(job: Job, *, before: int | None = None) -> LogPage:
    """The last lines, or those before the line `before`."""
    rows = job.log_lines.order_by("-id")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: LOG_PAGE + 1])
    lines = found[:LOG_PAGE][::-1]
    return LogPage(lines, lines[0].pk if len(found) > LOG_PAGE else None)


def steps_timed(job: Job) -> TimelineChart | None:
    """How long a job waited and what each step of its newest attempt took."""
    if job.started_at is None:
        return None
    lines = job.log_lines.filter(message__in=PHASES, at__gte=job.started_at)
    began = [
        (str(PHASES[line.message]), line.at)
        for line in lines.order_by("id")[:MOST_STEPS]
    ]
    if not began:
        return None
    end = job.finished_at or timezone.now()
    queued = job.queued_at or job.started_at
    spans = [(gettext("waiting for a place"), queued, job.started_at)]
    ends = [at for _name, at in began[1:]] + [end]
    spans += [(name, at, to) for (name, at), to in zip(began, ends, strict=True)]
    lanes = []
    for name, start, stop in spans:
        took = duration((stop - start).total_seconds())
        mark = Mark(start.timestamp(), stop.timestamp(), f"{name}: {took}")
        title = f"{name} · {took}"
        box = {"begin": queued.timestamp(), "end": end.timestamp()}
        lanes.append(lane_of(title, [mark], summary=f"{name}: {took}", **box))
    form = "%H:%M:%S"
    return TimelineChart(
        gettext("Time per step"),
        "",
        f"{timezone.localtime(queued):{form}}",
        f"{timezone.localtime(end):{form}}",
        lanes,
    )


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did, or found: one sentence, and keys for who may read rows."""

    summary: str
    facts: Mapping[str, Any]
    duplicated: list[Mapping[str, Any]]

    @property
    def shapes(self) -> list[tuple[str, Any]]:
        """The table before and after, when both are told."""
        return [
            (gettext("Before"), self.facts["before"]),
            (gettext("After"), self.facts["after"]),
        ]


def repaired_of(job: Job, *, may_read_rows: bool) -> Repaired | None:
    """None until the repair has ended well."""
    facts = with_sentences(job.report or {}).get("facts") or {}
    if "action" not in facts:
        return None
    keys = (facts.get("keys") or {}).get("duplicated") or []
    return Repaired(_said(facts), facts, keys if may_read_rows else [])


def _said(facts: Mapping[str, Any]) -> str:
    if summary := facts.get("summary"):
        return translated(summary)
    report = action_of(RepairWork(facts["action"])).report
    if report:
        return gettext(report) % defaultdict(lambda: "?", facts)
    parts = [
        f"{words}: {', '.join(map(str, found))}"
        for name, words in DONE.items()
        if (found := facts.get(name))
    ]
    return "; ".join(parts) + "." if parts else gettext("There was nothing to do.")


def asked_again(job: Job) -> str:
    """Where a repair is previewed, and asked for once more; "" for other jobs."""
    wanted = (job.payload or {}).get("repair") if job.kind == REPAIR else None
    if not wanted:
        return ""
    work = RepairWork(**wanted)
    action = action_of(work)
    place = reverse("frontend:table-action", args=[job.payload["table"], action.name])
    asked = [each for each in action.request.fields if not each.is_dry_run]
    about = {each.name: getattr(work, each.name) for each in asked}
    given = {name: 1 if value is True else value for name, value in about.items()}
    given = {name: value for name, value in given.items() if value}
    return f"{place}?{urlencode(given)}" if given else place


@dataclass(frozen=True, slots=True)
class Findings:
    """What a verification found. `keys` is empty for who may not read rows."""

    summary: str
    is_equal: bool
    facts: Mapping[str, Any]
    keys: list[tuple[str, list[str]]]


def findings_of(job: Job, *, may_read_rows: bool) -> Findings | None:
    """None until the verification has ended well."""
    facts = with_sentences(job.report or {}).get("facts") or {}
    if "verdict" not in facts:
        return None
    listed = facts.get("keys") or {} if may_read_rows else {}
    keys = [(str(DIFFERENCES[kind]), found) for kind, found in listed.items() if found]
    is_equal = facts["verdict"] == "equal"
    return Findings(translated(facts.get("summary", "")), is_equal, facts, keys)


def verified_of(principal: Principal, table_id: int) -> tuple[Job, Findings] | None:
    """The newest finished verification of a table, without keys of rows."""
    job = newest_verification(principal, table_id)
    findings = findings_of(job, may_read_rows=False) if job else None
    return (job, findings) if job and findings else None
