"""Items as the document's plain data, always in the same order. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from config.config_export.document import (
    DATASOURCE,
    GRANT,
    PATTERN,
    POLICY,
    RULE,
    TABLE,
    TARGET,
    USER,
    VERSION,
    Item,
)

Data = dict[str, Any]
_TABLE_ORDER = (
    "lake", "record_key", "cursor", "partition_by", "buckets", "updates",
    "exclude_columns", "as_text", "policy", "owner", "tags",
)  # fmt: skip
_PATTERN_ORDER = ("exclude", "target_database")


def render(items: Iterable[Item]) -> Data:
    """What `parse_document` takes; sections without an item are empty lists."""
    by_kind: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.key):
        by_kind.setdefault(item.kind, []).append(item)
    tables = by_kind.get(TABLE, []) + by_kind.get(PATTERN, [])
    return {
        "sluice": VERSION,
        "users": [_named(item) for item in by_kind.get(USER, [])],
        "datasources": [_named(item) for item in by_kind.get(DATASOURCE, [])],
        "policies": [
            {"on": item.key[0], **item.fields} for item in by_kind.get(POLICY, [])
        ],
        "onboardings": _onboardings(tables),
        "grants": [
            {"principal": item.key[0], **item.fields, "on": item.key[2]}
            for item in by_kind.get(GRANT, [])
        ],
        "rules": [dict(item.fields) for item in by_kind.get(RULE, [])],
        "alert_targets": [_named(item) for item in by_kind.get(TARGET, [])],
    }


def _named(item: Item) -> Data:
    return {"name": item.key[0], **item.fields}


def _onboardings(items: list[Item]) -> list[Data]:
    """Tables of one source and capture together; each pattern for itself."""
    groups: dict[str, Data] = {}
    for item in sorted(items, key=lambda item: (item.key, item.kind)):
        shared: Data = {"datasource": item.key[0]}
        shared |= _ordered(item.fields, ("capture", "shards"))
        if item.kind == TABLE:
            group = groups.setdefault(json.dumps(shared), {**shared, "tables": {}})
            group["tables"][item.key[1]] = _ordered(item.fields, _TABLE_ORDER)
            continue
        schedule = item.fields.get("policy") or {}
        pattern = shared | {"include": [item.key[1]]}
        pattern |= _ordered(item.fields, _PATTERN_ORDER) | schedule
        groups[json.dumps(pattern)] = pattern
    return [groups[key] for key in sorted(groups)]


def _ordered(fields: Mapping[str, Any], order: tuple[str, ...]) -> Data:
    return {name: fields[name] for name in order if name in fields}
