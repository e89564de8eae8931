"""`{% state job.state %}`: every state as colour, icon and word. Knows words only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from django import template
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from core.jobs.moves import JobKind, kinds_of
from frontend.reading.sources import NAMES
from frontend.templatetags.figures import figure
from ingest.pipelines.policies.schedule import ON_REQUEST, ONCE

register = template.Library()


@dataclass(frozen=True, slots=True)
class Look:
    """tone is a CSS class (ok, info, warn, bad, idle); `moves` spins the icon."""

    tone: str
    icon: str
    word: str
    moves: bool = False


LOOKS = {
    # jobs
    "PLANNED": Look("idle", "wait", "planned"),
    "QUEUED": Look("idle", "wait", "queued"),
    "LAUNCHING": Look("info", "move", "launching", moves=True),
    "RUNNING": Look("info", "move", "running", moves=True),
    "SUCCEEDED": Look("ok", "check", "succeeded"),
    "CANCELLED": Look("idle", "stop", "cancelled"),
    "CANCELLING": Look("warn", "move", "cancelling", moves=True),
    "UNKNOWN": Look("warn", "unknown", "unknown"),
    # tables
    "DRAFT": Look("idle", "wait", "draft"),
    "DISCOVERED": Look("idle", "dash", "not synced"),
    "PROPOSED": Look("warn", "wait", "awaiting approval"),
    "APPROVED": Look("info", "wait", "approved"),
    "SNAPSHOTTING": Look("info", "move", "snapshotting", moves=True),
    "CATCHING_UP": Look("info", "move", "catching up", moves=True),
    "LIVE": Look("ok", "check", "live"),
    "PAUSED": Look("idle", "pause", "paused"),
    "NEEDS_RESYNC": Look("warn", "warn", "needs resync"),
    "RESYNCING": Look("info", "move", "resyncing", moves=True),
    "REMOVING": Look("warn", "move", "removing", moves=True),
    "RETIRED": Look("idle", "stop", "removed"),
    "FAILED": Look("bad", "cross", "failed"),
    "FAILING": Look("bad", "warn", "failing"),
    "UNDECIDED": Look("warn", "warn", "needs a decision"),
    # statements
    "INITIALIZED": Look("idle", "wait", "starting"),
    "PENDING": Look("idle", "wait", "waiting"),
    "FINISHED": Look("ok", "check", "finished"),
    "CANCELED": Look("idle", "stop", "cancelled"),
    "CLOSED": Look("idle", "stop", "closed"),
    "ERROR": Look("bad", "cross", "error"),
    "TIMEDOUT": Look("bad", "wait", "timed out"),
    # alerts, who is told of them, and how that went
    "late": Look("warn", "wait", "lagging"),
    "stalled": Look("bad", "wait", "stalled"),
    "stuck": Look("bad", "warn", "stuck or broken"),
    "schema_change": Look("warn", "warn", "changed at source"),
    "verification_mismatch": Look("bad", "warn", "differs"),
    "capture": Look("bad", "warn", "log capture"),
    "open": Look("bad", "warn", "open"),
    "new": Look("bad", "warn", "new"),
    "critical": Look("bad", "warn", "critical"),
    "closed": Look("ok", "check", "closed"),
    "failing": Look("warn", "warn", "failing"),
    "paused": Look("bad", "pause", "paused"),
    "delivered": Look("ok", "check", "delivered"),
    "given_up": Look("bad", "cross", "given up"),
    # engines and processes
    "STOPPED": Look("idle", "stop", "stopped"),
    "STARTING": Look("info", "move", "starting", moves=True),
    "READY": Look("ok", "check", "ready"),
    # followers
    "following": Look("ok", "check", "following"),
    "starting": Look("info", "move", "starting", moves=True),
    "silent": Look("bad", "warn", "silent"),
    "stopped": Look("idle", "stop", "stopped"),
    # steps of tests and checks
    "ok": Look("ok", "check", "ok"),
    "passed": Look("ok", "check", "passed"),
    "failed": Look("bad", "cross", "failed"),
    "warning": Look("warn", "warn", "warning"),
    "skipped": Look("idle", "dash", "skipped"),
    "running": Look("info", "move", "running", moves=True),
    "waiting": Look("idle", "wait", "waiting"),
    "problem": Look("bad", "warn", "problem"),
}


def look_of(state: str) -> Look:
    return LOOKS.get(state) or Look("idle", "unknown", state.lower() or "unknown")


@register.inclusion_tag("frontend/parts/state.html")
def state(name: object) -> dict[str, object]:
    """A badge for a state's machine word."""
    return {"look": look(name), "name": name}


def titles_of_jobs() -> dict[str, str]:
    """By kind, in English."""
    return {each.name: each.title for each in kinds_of(JobKind)}


# What jobs write to their log as they enter a step.
PHASES: Mapping[str, object] = {
    "asking the source": _("asking the source"),
    "taking a moment of the source": _("taking a moment of the source"),
    "checking": _("checking"),
    "planning": _("planning"),
    "reading": _("reading"),
    "checking keys": _("checking keys"),
    "counting": _("counting"),
    "comparing": _("comparing"),
    "listing differences": _("listing differences"),
    "applying": _("applying"),
    "applying what the log has": _("applying what the log has"),
    "committing": _("committing"),
    "compacting": _("compacting"),
    "cleaning": _("cleaning"),
    "rewriting": _("rewriting"),
    "replacing": _("replacing"),
    "restoring": _("restoring"),
    "rolling back": _("rolling back"),
    "unscheduling": _("unscheduling"),
    "removing the metadata table": _("removing the metadata table"),
    "looking for duplicates": _("looking for duplicates"),
    "keeping a savepoint": _("keeping a savepoint"),
}

# By what a stored value is of: elsewhere the same one may mean another thing.
WORDS: Mapping[str, Mapping[str, object]] = {
    # what a delivery tells of an alert
    "event": {
        "opened": _("opened"),
        "closed": _("closed"),
        "recovered": _("resolved"),
        "test": _("test"),
    },
    # by what a table is synced and checked
    "fact": {
        "timestamp": _("by timestamp column"),
        "snapshot": _("snapshot once"),
        "log": _("by the source's log"),
        "full": _("whole rows"),
        "partial": _("only what is not NULL"),
        "equal": _("equal"),
        "different": _("different"),
    },
    # why the rows of a table get no newer
    "rests": {ON_REQUEST: _("On request"), ONCE: _("Loaded once")},
    # who asks where nobody does
    "actor": {
        "schedule": _("the schedule"),
        "schema policy": _("the policy on schema changes"),
        "resync policy": _("the policy on resyncs"),
        "policy": _("the maintenance policy"),
    },
    # by what a search found a table
    "match": {
        "database": _("database"),
        "column": _("column"),
        "comment": _("comment"),
    },
    # of an installation, as its health names them
    "part": {
        "database": _("Metadata database"),
        "migrations": _("Migrations"),
        "broker": _("Queue of work (Redis)"),
        "lake": _("Lake"),
    },
    # of a source: names of products
    "kind": {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL"},
    # where a job is: a step of a connection test has a name for people
    "phase": {**PHASES, **NAMES},
    # what a job counts
    "unit": {
        "rows": _("rows"),
        "files": _("files"),
        "steps": _("steps"),
        "tables": _("tables"),
        "chunks": _("chunks"),
        "commits": _("commits"),
        "instants": _("instants"),
        "partitions": _("partitions"),
        "plans": _("plans"),
        "sides": _("sides"),
    },
}


@register.filter
def word_of(value: str, of: str) -> str:
    """A stored value in the reader's language; one without a word as it is."""
    return str(WORDS[of].get(value, value))


@register.filter
def as_work(kind: str) -> str:
    """What people call a job of this kind (docs/glossary.md)."""
    return gettext(titles_of_jobs().get(kind, kind))


@register.filter
def look(name: object) -> Look:
    """The look with its word in the reader's language."""
    found = look_of(str(name))
    return replace(found, word=gettext(found.word))


@register.filter
def tone(name: object) -> str:
    """The CSS class of a state."""
    return look_of(str(name)).tone


@register.filter
def urgency(state: str) -> str:
    """The tone of a callout about a table in this state: bad, warn or none."""
    return {
        "FAILED": "bad",
        "FAILING": "bad",
        "NEEDS_RESYNC": "warn",
        "PAUSED": "warn",
        "UNDECIDED": "warn",
    }.get(state, "")


@register.filter
def state_word(name: object) -> str:
    return look(name).word


@register.filter
def counted(name: object, count: int) -> str:
    """How many are in a state."""
    return gettext("%(count)s %(state)s") % {
        "count": figure(count),
        "state": state_word(name),
    }
