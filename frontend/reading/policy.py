"""The settings of a source, a database or a table as people read them: label, help,
value, and which level sets it. The form and the health page show the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from catalog.models import Table
from frontend.reading.schedules import schedule_words
from frontend.templatetags.figures import duration, figure, size
from ingest.maintenance import compaction_drivers
from ingest.pipelines.policies.policy import DEFAULT, OWN, TABLE_KEYS
from ingest.pipelines.policies.schedule import parse_schedule
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.transitions import pipeline_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True)
class Number:
    """unit: of the value: "s", "bytes", or "". zero: what 0 means, unless nothing"""

    key: str
    label: StrOrPromise
    help: StrOrPromise
    unit: str = ""
    is_whole: bool = True
    zero: StrOrPromise = ""


GROUPS: tuple[tuple[StrOrPromise, tuple[Number, ...]], ...] = (
    (
        _("Reading and lag"),
        (
            Number("lag_seconds", _("Safety lag"),
                   _("How far syncs stay behind the source's clock."), "s",
                   is_whole=False),
            Number("late_after_seconds", _("Late after"),
                   _("How far behind its schedule a table counts as late."), "s"),
        ),
    ),
    (
        _("Log capture"),
        (
            Number("freshness_seconds", _("Freshness target"),
                   _("How soon changes in the source's log are to be in the lake."),
                   "s", is_whole=False),
            Number("max_waiting_bytes", _("Waiting log, at most"),
                   _("How much of the log is kept for a stopped table."), "bytes"),
            Number("max_waiting_seconds", _("Waiting time, at most"),
                   _("After this, a stopped table needs a resync."), "s"),
            Number("keep_changes_seconds", _("Change retention"),
                   _("How long changes can be read one by one once they are applied."),
                   "s", zero=_("until applied")),
        ),
    ),
    (
        _("Verification"),
        (
            Number("verify_every", _("Verification interval"),
                   _("Compares source and lake automatically; 0 switches off what a"
                     " level above sets."), "s", zero=_("off")),
            Number("verify_rows_per_second", _("Rows verified per second, at most"),
                   _("What an automatic verification reads; 0: no limit."),
                   zero=_("no limit")),
        ),
    ),
    (
        _("Compaction"),
        (
            Number("max_write_amplification", _("Write amplification, at most"),
                   _("Bytes written per byte changed."), is_whole=False),
            Number("compact_after", _("Compaction trigger: commits"),
                   _("Since the last compaction.")),
            Number("compact_log_bytes", _("Compaction trigger: log size"),
                   _("All log files of the table."), "bytes"),
            Number("compact_log_ratio", _("Compaction trigger: log ratio"),
                   _("Log bytes per base byte, from 1 MB of log files on."),
                   is_whole=False),
            Number("compact_log_age_seconds", _("Compaction trigger: log age"),
                   _("Age of the oldest log file."), "s"),
            Number("stuck_after_seconds", _("Stuck after"),
                   _("Unfinished work that is older counts as stuck."), "s"),
        ),
    ),
)  # fmt: skip
NUMBERS = {number.key: number for _, group in GROUPS for number in group}
# Of settings that are no number.
LABELS = {
    "schedule": _("Schedule"),
    "maintenance_window": _("Maintenance window"),
    "compact_driver": _("Compaction driver"),
    "schema_changes": _("Columns added at the source"),
    "new_tables": _("New tables that match an onboarding's pattern"),
    "resync": _("When a resync is needed"),
}
CHOICES: Mapping[str, Mapping[str, StrOrPromise]] = {
    "schema_changes": {
        "follow": _("Appear with the next sync"),
        "ask": _("Wait for approval"),
        "ignore": _("Are left out"),
    },
    "new_tables": {
        "join": _("Join the onboarding"),
        "ask": _("Wait for approval"),
        "ignore": _("Are left out"),
    },
    "resync": {
        "ask": _("Wait for a decision"),
        "auto": _("Start automatically, three a day at most"),
    },
}
_LEVELS = {"datasource": _("datasource %(name)s"), "database": _("database %(name)s")}


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """key: as REST and documents call it. origin: the level that says so."""

    key: str
    label: StrOrPromise
    help: StrOrPromise
    value: str
    origin: str


def policy_rows(table: Table) -> list[PolicyRow]:
    """Empty for a table that nothing is carried into any more."""
    pipeline = pipeline_of(table.pk)
    if pipeline is None:
        return []
    policy = policy_of(pipeline)
    own = compaction_drivers.by_policy(table)
    values = {**policy.values, "compact_driver": own and asdict(own)}
    labels = {DEFAULT: gettext("default"), OWN: gettext("this table")}
    return [
        PolicyRow(
            key,
            label(key),
            NUMBERS[key].help if key in NUMBERS else "",
            described(key, values[key]),
            labels.get(origin) or level_words(origin),
        )
        for key in (*NUMBERS, *LABELS)
        if key in TABLE_KEYS
        for origin in (policy.origins[key],)
    ]


def level_words(origin: str) -> str:
    """The level that a setting is from: "database shop.public"."""
    kind, _space, name = origin.partition(" ")
    return str(_LEVELS[kind]) % {"name": name} if kind in _LEVELS else origin


def label(key: str) -> StrOrPromise:
    return NUMBERS[key].label if key in NUMBERS else LABELS[key]


def described(key: str, value: Any) -> str:
    """A value as it reads within a sentence."""
    if key in NUMBERS:
        return _described_number(NUMBERS[key], value)
    if key in CHOICES:
        return str(CHOICES[key][value]).lower()
    if key == "schedule":
        return schedule_words(parse_schedule(value))
    if key == "maintenance_window":
        if not value:
            return gettext("at any time")
        text = gettext("%(from)s to %(to)s, %(timezone)s")
        return text % {name: str(value[name]) for name in ("from", "to", "timezone")}
    if not value:
        return gettext("shared driver")
    own = ngettext(
        "own driver, %(memory)s and %(count)s core",
        "own driver, %(memory)s and %(count)s cores",
        value["cores"],
    )
    return own % {"memory": value["memory"], "count": value["cores"]}


def _described_number(number: Number, value: Any) -> str:
    if number.zero and not value:
        return str(number.zero)
    if number.unit == "s":
        return duration(value)
    if number.unit == "bytes":
        return size(value)
    return figure(value) if number.is_whole else f"{value:g}"
