"""What happened, as lists and timelines show it: jobs with rows, bytes and positions,
and what else changed a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.policy import Principal
from catalog.selectors.contents import job_without_contents
from core.models import Job
from frontend.charts import Mark, lane_of
from frontend.reading.health_charts import TimelineChart
from frontend.templatetags.figures import duration, figure, parsed, sql_name
from frontend.templatetags.states import as_work, look, word_of
from ingest.pipelines.activity import COLUMNS, JOB, MOVE, Entry

MOST_LANES = 8
MOVES = {
    "approve": ("check", _("approved")),
    "pause": ("pause", _("paused")),
    "fail": ("cross", _("failed")),
    "lose_position": ("warn", _("needs a resync")),
    "remove": ("trash", _("removal requested")),
    "retire": ("trash", _("removed")),
    "keep": ("info", _("kept")),
}
RESUMED = ("play", _("resumed"))
DECISIONS = {
    "grant.create": ("key", _("granted %(privilege)s to %(principal)s")),
    "grant.delete": ("key", _("revoked %(privilege)s from %(principal)s")),
    "rule.create": ("lock", _("rule made on %(object)s")),
    "rule.update": ("lock", _("rule changed on %(object)s")),
    "rule.delete": ("lock", _("rule removed from %(object)s")),
    "policy.change": ("refresh", _("settings changed: %(change)s")),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list: a job, or something else, of which `word` says what. name,
    table: of the lake table, 0 = no page. why: what was given as its reason."""

    at: datetime
    name: str
    table: int
    job: Job | None = None
    icon: str = ""
    word: str = ""
    actor: str = ""
    why: str = ""
    tab: str = ""

    @property
    def is_moving(self) -> bool:
        return self.job is not None and not self.job.is_finished


def rows_of(principal: Principal, entries: Sequence[Entry]) -> list[Row]:
    shown = job_without_contents(principal)
    return [_row(entry, shown) for entry in entries]


def _row(entry: Entry, shown: Any) -> Row:
    facts = entry.facts
    if entry.of == JOB:
        job = shown(job_from(facts))
        is_of_table = job.kind not in {"test", "discover"} and job.subject_id.isdigit()
        table = int(job.subject_id) if is_of_table else 0
        return Row(entry.at, job.subject, table, job)
    if entry.of == MOVE:
        icon, moved = MOVES.get(facts["event"], RESUMED)
        who = {"actor": facts["actor"], "why": facts["reason"]}
        return Row(entry.at, *_named(facts), icon=icon, word=str(moved), **who)
    if entry.of == COLUMNS:
        said = {"version": facts["version"]}
        word = gettext("columns changed, version %(version)s") % said
        named = _named(facts)
        return Row(entry.at, *named, icon="menu", word=word, tab="columns")
    return _decided(entry)


def _named(facts: dict[str, Any]) -> tuple[str, int]:
    if not facts["table"]:
        return "", 0
    return f"lake.{facts['database']}.{facts['name']}", facts["table"]


def _decided(entry: Entry) -> Row:
    facts = entry.facts
    icon, word = DECISIONS[facts["action"]]
    about = {"privilege": "?", "principal": "?", **facts["facts"]}
    about["object"] = facts["object"]
    about["change"] = ", ".join(about.get("change") or ())
    return Row(
        entry.at, facts["object"], 0, icon=icon, word=str(word) % about,
        actor=facts["actor"], tab="",
    )  # fmt: skip


def job_from(facts: dict[str, Any]) -> Job:
    """A job as lists show it; it is never saved."""
    given = {
        name: parsed(value) if name.endswith("_at") else value
        for name, value in facts.items()
        if name != "facts"
    }
    return Job(**given, report={"facts": facts["facts"]})


def timeline_of(rows: Sequence[Row], *, by_kind: bool) -> TimelineChart | None:
    """The jobs of a page of the list as lanes: one of a table, or of a kind of job."""
    jobs = [row.job for row in rows if row.job and row.job.started_at]
    if len(jobs) < 2:
        return None
    lanes: dict[str, list[Job]] = {}
    for job in jobs:
        name = as_work(job.kind) if by_kind else sql_name(job.subject)
        if name in lanes or len(lanes) < MOST_LANES:
            lanes.setdefault(name, []).append(job)
    marks = {name: [_mark(job) for job in found] for name, found in lanes.items()}
    begin = min(mark.start for found in marks.values() for mark in found)
    end = max(mark.end for found in marks.values() for mark in found)
    drawn = [
        lane_of(name, found, begin=begin, end=end, summary=_summary(name, lanes[name]))
        for name, found in marks.items()
    ]
    first, last = (datetime.fromtimestamp(at, UTC) for at in (begin, end))
    form = "%m-%d %H:%M"
    return TimelineChart(
        gettext("Timeline of this list"),
        gettext("Bar width = duration; red: failed; grey: cancelled."),
        f"{timezone.localtime(first):{form}}",
        f"{timezone.localtime(last):{form}}",
        drawn,
    )


def _mark(job: Job) -> Mark:
    assert job.started_at is not None
    end = job.finished_at or timezone.now()
    seconds = (end - job.started_at).total_seconds()
    seen = look(job.state)
    said = [as_work(job.kind), seen.word, duration(seconds)]
    if job.done:
        said.append(f"{figure(job.done)} {word_of(job.unit, 'unit')}")
    tone = "" if seen.tone == "ok" else seen.tone
    return Mark(job.started_at.timestamp(), end.timestamp(), ", ".join(said), tone)


def _summary(name: str, jobs: Sequence[Job]) -> str:
    return gettext("%(title)s: %(number)s.") % {"title": name, "number": len(jobs)}
