"""The document as a value: items with a key and stated fields, and their shape. Pure.

A field that is not stated is left as it is. Faults are told all at once, each with
its JSON pointer; whether a host or a column exists is for the services to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import InvalidRequest
from core.json_pointers import escape

VERSION = 1
DATASOURCE, USER, GRANT, POLICY = "datasource", "user", "grant", "policy"
TABLE, PATTERN, TARGET = "onboarding", "onboarding of", "alert target"
SECTIONS = (
    "users", "datasources", "policies", "onboardings", "grants", "alert_targets",
)  # fmt: skip
_KINDS_OF = {
    "users": (USER,),
    "datasources": (DATASOURCE,),
    "policies": (POLICY,),
    "onboardings": (TABLE, PATTERN),
    "grants": (GRANT,),
    "alert_targets": (TARGET,),
}
Fault = dict[str, str]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing. `key` names it among its kind; `at` is where the file states it.

    secret_env  name of the environment variable with its password; import only
    address_env  likewise with the address of a webhook
    """

    kind: str
    key: tuple[str, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""
    secret_env: str = ""
    address_env: str = ""

    @property
    def name(self) -> str:
        if self.kind == GRANT:
            principal, held, on = self.key
            return f"{held} on {on} to {principal}"
        return ".".join(self.key)


@dataclass(frozen=True, slots=True)
class Document:
    """`sections` are those that the file has: what it does not have is not compared."""

    items: tuple[Item, ...]
    sections: frozenset[str] = frozenset(SECTIONS)

    def covers(self, item: Item) -> bool:
        return any(item.kind in _KINDS_OF[name] for name in self.sections)


def parse_document(data: Any) -> Document:
    """InvalidRequest `invalid_document` with all faults in `facts["errors"]`."""
    reader = _Reader()
    top = reader.mapping(data, "", {"sluice": _whole, **dict.fromkeys(SECTIONS, _list)})
    if top.get("sluice") != VERSION and not reader.faults:
        reader.fault(
            "/sluice" if "sluice" in top else "", f"must be there and be {VERSION}"
        )
    for name in SECTIONS:
        for index, entry in enumerate(top.get(name) or []):
            reader.items += _PARTS[name](reader, entry, f"/{name}/{index}")
    reader.refuse_twins()
    if reader.faults:
        raise InvalidRequest(
            f"{len(reader.faults)} fault(s) in the document",
            code="invalid_document",
            hint="nothing was changed: correct the file and import it again",
            facts={"errors": reader.faults},
        )
    return Document(tuple(reader.items), frozenset(set(top) & set(SECTIONS)))


# ------------------------------------------------------------------------- shapes
Check = Callable[[Any], str]


def _text(value: Any) -> str:
    if isinstance(value, str) and value and "\x00" not in value:
        return ""
    return "must be a text" + ("; put it in quotes" if value not in ("", None) else "")


def _whole(value: Any) -> str:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if is_whole else "must be a whole number"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _list(value: Any) -> str:
    return "" if isinstance(value, list) else "must be a list"


def _object(value: Any) -> str:
    return "" if isinstance(value, dict) else "must have members"


def _texts(value: Any) -> str:
    is_right = isinstance(value, list) and not any(_text(item) for item in value)
    return "" if is_right else "must be a list of texts"


def _key(value: Any) -> str:
    is_right = value == "row_hash" or (value and not _texts(value))
    return "" if is_right else 'must be a list of columns or "row_hash"'


def _identity(value: Any) -> str:
    is_right = (
        isinstance(value, dict)
        and set(value) == {"provider", "subject"}
        and not any(map(_text, value.values()))
    )
    return "" if is_right else "must have the texts provider and subject"


def _any(value: Any) -> str:
    return ""


_USER: dict[str, Check] = {
    "name": _text, "groups": _texts, "is_admin": _flag, "is_active": _flag,
    "password_env": _text, "identity": _identity,
}  # fmt: skip
_DATASOURCE: dict[str, Check] = {
    "name": _text, "kind": _text, "host": _text, "port": _whole, "database": _text,
    "username": _text, "tls": _text, "options": _object, "password_env": _text,
}  # fmt: skip
_POLICY: dict[str, Check] = {
    "on": _text, "schedule": _any, "lag_seconds": _any, "compact_after": _any,
    "compact_log_bytes": _any, "compact_log_ratio": _any,
    "compact_log_age_seconds": _any, "stuck_after_seconds": _any, "quiet_hours": _any,
    "late_after_seconds": _any, "compact_driver": _any,
    "verify_every": _any, "verify_rows_per_second": _any,
    "max_write_amplification": _any, "schema_changes": _any,
}  # fmt: skip
_GRANT: dict[str, Check] = {
    "principal": _text, "privilege": _text, "role": _text, "on": _text,
}  # fmt: skip
_TARGET: dict[str, Check] = {
    "name": _text, "kind": _text, "host": _text, "address": _text, "kinds": _texts,
    "on": _text, "url_env": _text, "secret_env": _text,
}  # fmt: skip
_ONBOARDING: dict[str, Check] = {
    "datasource": _text, "capture": _text, "include": _texts, "exclude": _texts,
    "schedule": _any, "target_database": _text, "tables": _object,
}  # fmt: skip
_TABLE: dict[str, Check] = {
    "lake": _text, "record_key": _key, "cursor": _text, "partition_by": _texts,
    "buckets": _whole, "updates": _text, "exclude_columns": _texts, "policy": _object,
}  # fmt: skip


class _Reader:
    """Collects items and faults on one walk."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.faults: list[Fault] = []

    def fault(self, at: str, detail: str) -> None:
        self.faults.append({"pointer": at, "detail": detail})

    def mapping(
        self, value: Any, at: str, shape: Mapping[str, Check], *needed: str
    ) -> dict[str, Any]:
        """The members that have their shape; every other one is a fault."""
        if not isinstance(value, dict):
            self.fault(at, "must have members: " + ", ".join(shape))
            return {}
        found: dict[str, Any] = {}
        for name, given in value.items():
            check = shape.get(name)
            said = check(given) if check else "unknown; known: " + ", ".join(shape)
            if said:
                self.fault(f"{at}/{escape(name)}", said)
            else:
                found[name] = given
        for name in needed:
            if name not in value:
                self.fault(at, f"'{name}' is missing")
        return found

    def refuse_twins(self) -> None:
        seen: dict[tuple[str, tuple[str, ...]], Item] = {}
        for item in self.items:
            first = seen.setdefault((item.kind, item.key), item)
            if first is not item:
                self.fault(item.at, f"{item.kind} {item.name} is also at {first.at}")


def _user(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, _USER, "name")
    secret = given.pop("password_env", "")
    name = given.pop("name", "")
    if "groups" in given:
        given["groups"] = sorted(set(given["groups"]))
    return [Item(USER, (name,), given, at, secret)] if name else []


def _datasource(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, _DATASOURCE, "name", "kind")
    secret = given.pop("password_env", "")
    name = given.pop("name", "")
    for option, value in (given.pop("options", None) or {}).items():
        given[f"options.{option}"] = value
    return [Item(DATASOURCE, (name,), given, at, secret)] if name else []


def _policy(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, _POLICY, "on")
    on = given.pop("on", "")
    return [Item(POLICY, (on,), given, at)] if on else []


def _grant(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, _GRANT, "principal", "on")
    if ("privilege" in given) == ("role" in given):
        reader.fault(at, "give exactly one of privilege and role")
        return []
    if not {"principal", "on"} <= set(given):
        return []
    held = given.get("role") or given["privilege"]
    fields = {"role" if "role" in given else "privilege": held}
    return [Item(GRANT, (given["principal"], held, given["on"]), fields, at)]


def _target(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, _TARGET, "name", "kind")
    secret, address = given.pop("secret_env", ""), given.pop("url_env", "")
    name = given.pop("name", "")
    if not name or "kind" not in given:
        return []
    return [Item(TARGET, (name,), given, at, secret, address)]


def _onboarding(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, _ONBOARDING, "datasource")
    source = given.get("datasource", "")
    include, tables = given.get("include", []), given.get("tables", {})
    if not include and not tables:
        reader.fault(at, "name tables under 'tables' or patterns under 'include'")
    shared = {"capture": given["capture"]} if "capture" in given else {}
    own = {"schedule": given["schedule"]} if given.get("schedule") is not None else {}
    found = []
    for name, choices in tables.items():
        below = f"{at}/tables/{escape(name)}"
        chosen = reader.mapping(choices or {}, below, _TABLE)
        if own:
            chosen["policy"] = own | chosen.get("policy", {})
        found.append(Item(TABLE, (source, name), shared | chosen, below))
    more = {k: given[k] for k in ("exclude", "target_database") if k in given}
    policy = {"policy": own} if own else {}
    for index, pattern in enumerate(include):
        below = f"{at}/include/{index}"
        if pattern not in tables:
            kind = PATTERN if "*" in pattern else TABLE
            kept = more if kind == PATTERN else {}
            fields = shared | kept | policy
            found.append(Item(kind, (source, pattern), fields, below))
    return found if source else []


_PARTS: dict[str, Callable[[_Reader, Any, str], list[Item]]] = {
    "users": _user,
    "datasources": _datasource,
    "policies": _policy,
    "onboardings": _onboarding,
    "grants": _grant,
    "alert_targets": _target,
}
