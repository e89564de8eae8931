"""The body of `POST /onboardings` as a checked value; each mistake has its pointer.

What later releases bring is told apart from what is wrong. Knows no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast

from core.errors import InvalidRequest
from core.json_pointers import below
from ingest.contract.table import Updates
from ingest.pipelines.policies.schedule import (
    Schedule,
    parse_schedule,
    schedule_to_json,
)
from ingest.planning.facts import ROW_HASH, Capture, Choices
from ingest.planning.wishes import NO_WISH, Wish

MEMBERS = frozenset(
    {
        "datasource", "include", "exclude", "capture", "schedule", "target_database",
        "tables", "defaults", "dry_run", "approve",
    }
)  # fmt: skip
TABLE_MEMBERS = frozenset(
    {
        "record_key", "cursor", "partition_by", "buckets", "exclude_columns", "lake",
        "updates", "capture", "schedule",
    }
)  # fmt: skip
DEFAULT_MEMBERS = frozenset(
    {
        "record_key", "cursor", "partition_by", "buckets", "exclude_columns",
        "otherwise",
    }
)  # fmt: skip
_LATER_CAPTURES = frozenset({"log"})
_CORRECT = "correct what 'errors' points at, and send the request again"
_NO_SYNCS = "a table that is loaded once has no syncs, so it takes no schedule"


@dataclass(frozen=True, slots=True)
class OnboardingRequest:
    """What somebody asks for. `schedule` None = as database or source have it.
    defaults: for every table that can have them."""

    datasource: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    capture: Capture = "timestamp"
    schedule: Schedule | None = None
    target_database: str | None = None
    tables: Mapping[str, Choices] = field(default_factory=dict)
    defaults: Wish = NO_WISH
    dry_run: bool = False
    approve: bool = False

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
        }


def parse_request(data: Any) -> OnboardingRequest:
    """InvalidRequest with code `not_yet` for later releases' values."""
    body = _mapping(data, "")
    _known(body, MEMBERS, "")
    schedule = parse_schedule(body.get("schedule"))
    if schedule is not None and body.get("capture") == "snapshot":
        refuse("/schedule", _NO_SYNCS)
    return OnboardingRequest(
        datasource=_text(body, "datasource"),
        include=_texts(body.get("include"), "/include", at_least=1),
        exclude=_texts(body.get("exclude") or [], "/exclude"),
        capture=_capture(body.get("capture", "timestamp"), "/capture"),
        schedule=schedule,
        target_database=_target(body.get("target_database")),
        tables={
            name: parse_choices(value, below("/tables", name))
            for name, value in _mapping(body.get("tables") or {}, "/tables").items()
        },
        defaults=parse_wish(body.get("defaults") or {}),
        dry_run=flag(body, "dry_run"),
        approve=flag(body, "approve"),
    )


def refuse(pointer: str, detail: str, *, code: str = "invalid_request") -> NoReturn:
    raise InvalidRequest(
        detail,
        code=code,
        hint=_CORRECT,
        facts={"errors": [{"pointer": pointer, "detail": detail}]},
    )


def not_yet(what: str, *, hint: str = "") -> InvalidRequest:
    """For REST this is 501 `not_yet`."""
    return InvalidRequest(
        f"{what} comes with a later release", code="not_yet", hint=hint
    )


def _capture(value: Any, at: str) -> Capture:
    if not isinstance(value, str):
        refuse(at, "capture must be a text")
    if value in _LATER_CAPTURES:
        raise not_yet(f"capture '{value}'", hint="use 'timestamp' or 'snapshot'")
    if value not in {"snapshot", "timestamp"}:
        refuse(at, f"'{value}' is no capture: use 'snapshot' or 'timestamp'")
    return cast(Capture, value)


def _target(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        refuse("/target_database", "target_database must be a name")
    return value


def parse_choices(value: Any, at: str) -> Choices:
    """What is chosen for one table; `at` is where it stands in the request."""
    data = _mapping(value, at)
    _known(data, TABLE_MEMBERS, at)
    key = data.get("record_key")
    cursor, buckets = data.get("cursor"), data.get("buckets")
    if cursor is not None and not isinstance(cursor, str):
        refuse(f"{at}/cursor", "cursor must be the name of a column")
    lake = data.get("lake")
    if lake is not None and not isinstance(lake, str):
        refuse(f"{at}/lake", "lake must be a name, database.table")
    if buckets is not None and (not isinstance(buckets, int) or buckets is True):
        refuse(f"{at}/buckets", "buckets must be a whole number")
    given = data.get("capture")
    capture = None if given is None else _capture(given, f"{at}/capture")
    schedule = parse_schedule(data.get("schedule"), f"{at}/schedule")
    if schedule is not None and capture == "snapshot":
        refuse(f"{at}/schedule", _NO_SYNCS)
    return Choices(
        record_key=_key(key, f"{at}/record_key"),
        cursor=cursor,
        partition_by=_texts(data.get("partition_by") or [], f"{at}/partition_by"),
        buckets=buckets,
        exclude_columns=_texts(
            data.get("exclude_columns") or [], f"{at}/exclude_columns"
        ),
        lake=lake,
        updates=_updates(data.get("updates"), f"{at}/updates"),
        capture=capture,
        schedule=schedule_to_json(schedule),
    )


def parse_wish(value: Any) -> Wish:
    """What all tables of the request get that can have it."""
    at = "/defaults"
    data = _mapping(value, at)
    _known(data, DEFAULT_MEMBERS, at)
    buckets = data.get("buckets")
    if buckets is not None and (type(buckets) is not int or not 1 <= buckets <= 4096):
        refuse(f"{at}/buckets", "buckets must be a whole number from 1 to 4096")
    if data.get("record_key") not in (None, ROW_HASH):
        refuse(f"{at}/record_key", 'record_key of all tables is "row_hash" or null')
    if data.get("otherwise") not in (None, "snapshot"):
        refuse(f"{at}/otherwise", 'otherwise is "snapshot" or null')
    return Wish(
        cursors=_texts(data.get("cursor") or [], f"{at}/cursor"),
        partition_by=_texts(data.get("partition_by") or [], f"{at}/partition_by"),
        buckets=buckets,
        exclude_columns=_texts(
            data.get("exclude_columns") or [], f"{at}/exclude_columns"
        ),
        row_hash=data.get("record_key") == ROW_HASH,
        load_once=data.get("otherwise") == "snapshot",
    )


def _updates(value: Any, at: str) -> Updates | None:
    if value is not None and value not in ("full", "partial"):
        refuse(at, "updates must be 'full' or 'partial'")
    return cast(Updates | None, value)


def _key(value: Any, at: str) -> tuple[str, ...] | Literal["row_hash"] | None:
    if value is None:
        return None
    if value == ROW_HASH:
        return ROW_HASH
    if isinstance(value, str):
        refuse(at, 'record_key must be a list of columns, "row_hash" or null')
    return _texts(value, at, at_least=1)


def _mapping(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        refuse(at, "expected an object")
    return value


def _known(data: Mapping[str, Any], fields: frozenset[str], at: str) -> None:
    for name in data:
        if name not in fields:
            refuse(
                below(at, name),
                f"unknown field '{name}'; known: {', '.join(sorted(fields))}",
                code="unknown_field",
            )


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        refuse(f"/{name}", f"'{name}' is missing")
    return value


def _texts(value: Any, at: str, *, at_least: int = 0) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) < at_least:
        refuse(at, "expected a list of names" + (", not empty" if at_least else ""))
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item:
            refuse(f"{at}/{index}", "expected a name")
    return tuple(value)


def flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        refuse(f"/{name}", f"'{name}' must be true or false")
    return value
