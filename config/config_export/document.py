"""The document as a value: items with a key and stated fields. Knows no rows.

A field that is not stated is left as it is. Faults are told all at once, each with
its JSON pointer; whether a host or a column exists is for the services to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.api.documents import (
    Sections,
    Stated,
    StatedDatasource,
    StatedGrant,
    StatedRule,
    StatedUser,
    stated,
)
from core.errors import InvalidRequest
from core.json_values import escape
from ingest.api.documents import StatedOnboarding, StatedPolicy, StatedTarget

VERSION = 1
DATASOURCE, USER, GRANT, POLICY = "datasource", "user", "grant", "policy"
RULE = "rule"
TABLE, PATTERN, TARGET = "onboarding", "onboarding of", "alert target"
SECTIONS = {
    "users": (USER,),
    "datasources": (DATASOURCE,),
    "policies": (POLICY,),
    "onboardings": (TABLE, PATTERN),
    "grants": (GRANT,),
    "rules": (RULE,),
    "alert_targets": (TARGET,),
}
Fault = dict[str, str]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing. `key` names it among its kind; `at` is where the file states it.

    secret_env  name of the environment variable with its password, or with the secret
                of a webhook; import only
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
            principal, held, on, *columns = self.key
            some = f" ({', '.join(columns)})" if columns else ""
            return f"{held} on {on}{some} to {principal}"
        if self.kind == RULE:
            return f"{self.key[0]} on {self.key[1]}"
        return ".".join(self.key)


@dataclass(frozen=True, slots=True)
class Document:
    """`sections` are those that the file has: what it does not have is not compared."""

    items: tuple[Item, ...]
    sections: frozenset[str] = frozenset(SECTIONS)

    def covers(self, item: Item) -> bool:
        return any(item.kind in SECTIONS[name] for name in self.sections)


def parse_document(data: Any) -> Document:
    """InvalidRequest `invalid_document` with all faults in `facts["errors"]`."""
    reader = _Reader()
    top = reader.mapping(data, "", Sections)
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
    return Document(tuple(reader.items), frozenset(top) & set(SECTIONS))


class _Reader:
    """Collects items and faults on one walk."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.faults: list[Fault] = []

    def fault(self, at: str, detail: str) -> None:
        self.faults.append({"pointer": at, "detail": detail})

    def mapping(self, value: Any, at: str, shape: type[Stated]) -> dict[str, Any]:
        """The members of an entry; none, and its faults are kept, when it has any."""
        found, faults = stated(shape, value, at)
        self.faults += faults
        return found

    def refuse_twins(self) -> None:
        seen: dict[tuple[str, tuple[str, ...]], Item] = {}
        for item in self.items:
            first = seen.setdefault((item.kind, item.key), item)
            if first is not item:
                self.fault(item.at, f"{item.kind} {item.name} is also at {first.at}")


Part = Callable[[_Reader, Any, str], list[Item]]


def _named(kind: str, shape: type[Stated]) -> Part:
    """Of things that have a name, and may have secrets in the environment."""

    def read(reader: _Reader, entry: Any, at: str) -> list[Item]:
        given = reader.mapping(entry, at, shape)
        secret = given.pop("password_env", "") or given.pop("secret_env", "")
        address = given.pop("url_env", "")
        name = given.pop("name", "")
        return [Item(kind, (name,), given, at, secret, address)] if name else []

    return read


def _policy(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, StatedPolicy)
    on = given.pop("on", "")
    return [Item(POLICY, (on,), given, at)] if on else []


def _grant(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, StatedGrant)
    if not given:
        return []
    held = given.get("role") or given["privilege"]
    fields: dict[str, Any] = {"role" if "role" in given else "privilege": held}
    columns = sorted({column.lower() for column in given.get("columns", ())})
    if columns:
        fields["columns"] = columns
    key = (given["principal"], held, given["on"], *columns)
    return [Item(GRANT, key, fields, at)]


def rule_item(fields: Mapping[str, Any], at: str = "") -> Item:
    """All that a rule says is its name: another one is another rule."""
    stated = {name: value for name, value in fields.items() if value}
    key = tuple(
        str(stated.get(name, "")) for name in ("kind", "on", "mask", "expression")
    )
    people = [
        ", ".join(sorted(stated[name])) if name in stated else ""
        for name in ("applies_to", "except")
    ]
    return Item(RULE, (*key, *people), stated, at)


def _rule(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, StatedRule)
    return [rule_item(given, at)] if given else []


def _onboarding(reader: _Reader, entry: Any, at: str) -> list[Item]:
    given = reader.mapping(entry, at, StatedOnboarding)
    source = given.get("datasource", "")
    include, tables = given.get("include", []), given.get("tables", {})
    names = ("capture", "shards")
    shared: dict[str, Any] = {name: given[name] for name in names if name in given}
    own = {"schedule": given["schedule"]} if given.get("schedule") is not None else {}
    found = []
    for name, choices in tables.items():
        below = f"{at}/tables/{escape(name)}"
        chosen = dict(choices or {})
        if own:
            chosen["policy"] = own | chosen.get("policy", {})
        found.append(Item(TABLE, (source, name), shared | chosen, below))
    more = {k: given[k] for k in ("exclude", "target_database") if k in given}
    policy = {"policy": own} if own else {}
    for index, pattern in enumerate(include):
        below = f"{at}/include/{index}"
        if pattern not in tables:
            # one lake table each
            kind = PATTERN if "*" in pattern and "shards" not in given else TABLE
            kept = more if kind == PATTERN else {}
            fields = shared | kept | policy
            found.append(Item(kind, (source, pattern), fields, below))
    return found


_PARTS: dict[str, Part] = {
    "users": _named(USER, StatedUser),
    "datasources": _named(DATASOURCE, StatedDatasource),
    "policies": _policy,
    "onboardings": _onboarding,
    "grants": _grant,
    "rules": _rule,
    "alert_targets": _named(TARGET, StatedTarget),
}
