"""What an onboarding request means; each mistake has its pointer.

Its shape, and that a choice is one of those there are, was checked where it came in:
by REST's serializer, a page's form or the reader of an import. What later releases
bring is told apart. Knows no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from core.errors import InvalidRequest
from core.json_values import below
from ingest.pipelines.policies.schedule import (
    Schedule,
    parse_schedule,
    schedule_to_json,
)
from ingest.planning.defaults import NO_DEFAULTS, PlanDefaults
from ingest.planning.facts import ROW_HASH, Capture, Choices
from ingest.planning.patterns import is_wild
from ingest.planning.shards import ShardPattern, check_column

MOST_WILD, LONGEST_WILD = 100, 500
_CORRECT = "correct that, and send the request again"
_SHARDS_BY_TIMESTAMP = (
    "a sharded table follows its source's log, or is loaded once: syncs by a timestamp"
    " read one table"
)
_NO_SYNCS = {
    "snapshot": "a table that is loaded once has no syncs, so it takes no schedule",
    "log": "a table that is followed by its log has no syncs, so it takes no schedule",
}


@dataclass(frozen=True, slots=True)
class OnboardingRequest:
    """What a user asks for. `schedule` None = as database or source have it; it is for
    tables that have syncs. `capture` None = each table as it can have it.
    defaults: for every table that can have them. shards: the column that says of which
    source table a row is, where each pattern means one lake table; "" = none does."""

    datasource: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    capture: Capture | None = None
    schedule: Schedule | None = None
    target_database: str | None = None
    tables: Mapping[str, Choices] = field(default_factory=dict)
    defaults: PlanDefaults = NO_DEFAULTS
    dry_run: bool = False
    approve: bool = False
    shards: str = ""

    def to_data(self) -> dict[str, Any]:
        """What is stored on the row, for people to look at."""
        return {
            "datasource": self.datasource,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "capture": self.capture,
            "schedule": schedule_to_json(self.schedule),
            "target_database": self.target_database,
            "defaults": self.defaults.to_data(),
            "shards": {"column": self.shards} if self.shards else None,
        }


def parse_request(body: Mapping[str, Any]) -> OnboardingRequest:
    """InvalidRequest with code `not_yet` for later releases' values. body: as
    `ingest.api.requests.OnboardingNew` declares it."""
    schedule = parse_schedule(body.get("schedule"))
    if schedule is not None and body.get("capture") in _NO_SYNCS:
        refuse("/schedule", _NO_SYNCS[body["capture"]])
    if not body["include"]:
        refuse("/include", "expected a list of names, not empty")
    include = tuple(dict.fromkeys(body["include"]))
    _check_patterns([*include, *(body.get("exclude") or ())])
    tables = body.get("tables") or {}
    return OnboardingRequest(
        datasource=body["datasource"],
        include=include,
        exclude=tuple(body.get("exclude") or ()),
        capture=body.get("capture"),
        schedule=schedule,
        target_database=_target(body.get("target_database")),
        tables={
            name: parse_choices(choices, below("/tables", name))
            for name, choices in tables.items()
        },
        defaults=parse_defaults(body.get("defaults") or {}),
        dry_run=body.get("dry_run", False),
        approve=body.get("approve", False),
        shards=_shards(body, include),
    )


def _shards(body: Mapping[str, Any], include: tuple[str, ...]) -> str:
    """The column's name, once each pattern means a sharded table."""
    if not (given := body.get("shards")):
        return ""
    if body.get("capture") == "timestamp":
        refuse("/capture", _SHARDS_BY_TIMESTAMP, code="invalid_shards")
    with pointing_at("/shards/column"):
        check_column(str(given["column"]))
    for index, text in enumerate(include):
        with pointing_at(f"/include/{index}"):
            ShardPattern.parse(text)
    return str(given["column"])


@contextmanager
def pointing_at(pointer: str) -> Iterator[None]:
    """InvalidRequest inside is about this member of the request."""
    try:
        yield
    except InvalidRequest as error:
        refuse(pointer, error.message, code=error.code)


def _check_patterns(patterns: list[str]) -> None:
    """Each of these is tried on every table of the source."""
    wild = [pattern for pattern in patterns if is_wild(pattern)]
    if len(wild) > MOST_WILD:
        refuse(
            "/include",
            "%(count)s patterns with a star within a name; at most"
            " %(most)s, and any number of names and of db.*",
            count=f"{len(wild):,}",
            most=MOST_WILD,
        )
    if any(len(pattern) > LONGEST_WILD for pattern in wild):
        refuse(
            "/include", "a pattern has at most %(most)s characters", most=LONGEST_WILD
        )


def refuse(
    pointer: str, message: str, *, code: str = "invalid_request", **named: Any
) -> NoReturn:
    raise InvalidRequest(message, **named, code=code, hint=_CORRECT, pointer=pointer)


def _target(value: str | None) -> str | None:
    if value is not None and not value.strip():
        refuse("/target_database", "target_database must be a name")
    return value


def parse_choices(data: Mapping[str, Any], at: str) -> Choices:
    """What is chosen for one table; `at` is where it stands in the request."""
    capture = data.get("capture")
    schedule = parse_schedule(data.get("schedule"), f"{at}/schedule")
    if schedule is not None and capture in _NO_SYNCS:
        refuse(f"{at}/schedule", _NO_SYNCS[capture])
    return Choices(
        record_key=_key(data.get("record_key"), f"{at}/record_key"),
        cursor=data.get("cursor"),
        partition_by=tuple(data.get("partition_by") or ()),
        buckets=data.get("buckets"),
        exclude_columns=tuple(data.get("exclude_columns") or ()),
        as_text=tuple(data.get("as_text") or ()),
        lake=data.get("lake"),
        updates=data.get("updates"),
        capture=capture,
        schedule=schedule_to_json(schedule),
    )


def parse_defaults(data: Mapping[str, Any]) -> PlanDefaults:
    """What all tables of the request get that can have it."""
    buckets = data.get("buckets")
    if buckets is not None and not 1 <= buckets <= 4096:
        refuse("/defaults/buckets", "buckets must be a whole number from 1 to 4096")
    return PlanDefaults(
        cursors=tuple(data.get("cursor") or ()),
        partition_by=tuple(data.get("partition_by") or ()),
        buckets=buckets,
        exclude_columns=tuple(data.get("exclude_columns") or ()),
        row_hash=data.get("record_key") == ROW_HASH,
        load_once=data.get("otherwise") == "snapshot",
    )


def _key(value: Any, at: str) -> tuple[str, ...] | Literal["row_hash"] | None:
    """The one member that may have two shapes."""
    if value is None or value == ROW_HASH:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        refuse(at, 'record_key must be a list of columns, "row_hash" or null')
    if not isinstance(value, list) or not value:
        refuse(at, "expected a list of names, not empty")
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item:
            refuse(f"{at}/{index}", "expected a name")
    return tuple(value)
