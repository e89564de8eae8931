"""Onboardings of a document: patterns become tables, tables become proposals.

A source that is not discovered keeps them waiting. Nothing is approved here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from catalog.labels import Labels, label_tables
from catalog.models import Datasource
from config.config_export.configuration import items_that_wait
from config.config_export.diff import Change, Difference
from config.config_export.document import PATTERN, TABLE, Item
from config.config_export.located import located, placed
from config.config_export.sources import ACTOR
from core.errors import InvalidRequest
from core.json_values import unescape
from ingest.models import Pipeline
from ingest.models.states import PROPOSED, REMOVING, RETIRED
from ingest.pipelines.deferred_onboardings import (
    OPERATOR,
    begin,
    forget_waiting,
    wait_for_discovery,
)
from ingest.pipelines.plan_overrides import choose_for
from ingest.pipelines.policies.store import change_table_policy
from ingest.pipelines.requests import parse_choices
from ingest.pipelines.table_facts import names_of
from ingest.planning.patterns import select

CHOICES = (
    "lake", "record_key", "cursor", "partition_by", "buckets", "updates",
    "exclude_columns", "as_text",
)  # fmt: skip
LABELS = ("owner", "tags")
_POINTER = re.compile(r"/(tables|include)/([^/]*)(.*)")


def expanded(items: Iterable[Item], have: Iterable[Item]) -> tuple[Item, ...]:
    """Patterns of discovered sources as the tables they mean and that are not there."""
    found: list[Item] = []
    taken = {item.key for item in have if item.kind == TABLE}
    items = tuple(items)
    taken |= {item.key for item in items if item.kind == TABLE}
    for item in items:
        source = _discovered(item.key[0]) if item.kind == PATTERN else None
        if source is None:
            found.append(item)
            continue
        with located(item):
            new = [k for k in _meant(source, item) if k not in taken]
        taken |= set(new)
        fields = {k: v for k, v in item.fields.items() if k != "exclude"}
        found += [Item(TABLE, key, fields, item.at) for key in new]
    return tuple(found)


def _discovered(name: str) -> Datasource | None:
    return Datasource.objects.filter(name=name, discovered_at__isnull=False).first()


def _meant(source: Datasource, item: Item) -> list[tuple[str, str]]:
    names = [(database, table) for _, database, table in names_of(source)]
    exclude = tuple(item.fields.get("exclude") or ())
    selection = select(names, include=(item.key[1],), exclude=exclude)
    if selection.unmatched:
        raise InvalidRequest(
            f"'{item.key[1]}' matches no table of {source.name}",
            code="unknown_table",
            hint="discover the source again if it is new",
        )
    return [(source.name, ".".join(names[index])) for index in selection.matched]


# ------------------------------------------------------------------------- create


def onboard(changes: list[Change], notes: list[str], *, is_dry: bool) -> list[Change]:
    """One request for tables that share everything but their choices. is_dry: it is
    taken back, and the import itself will make others."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(_shared(change.item), []).append(change)
    done = []
    for group in groups.values():
        source, items = group[0].item.key[0], [change.item for change in group]
        with placed(f"onboarding of {source}", partial(_place, items)):
            done += _begin(source, group, notes, is_dry=is_dry)
    return done


def _shared(item: Item) -> str:
    names = ("capture", "policy", "exclude", "target_database", "shards")
    own = {name: item.fields.get(name) for name in names}
    return json.dumps([item.key[0], item.kind, own], sort_keys=True)


def _begin(
    name: str, group: list[Change], notes: list[str], *, is_dry: bool
) -> list[Change]:
    source = Datasource.objects.filter(name=name).first()
    if source is None or source.is_lake:
        raise InvalidRequest(
            f"there is no datasource '{name}'",
            code="datasource_not_found",
            hint="state it under 'datasources' too",
        )
    body = _body(source, [change.item for change in group])
    what = f"{len(group)} table(s) or pattern(s) of {name}"
    if any(change.item.fields.get(label) for change in group for label in LABELS):
        notes.append(f"owner and tags of {what}: import again once they are approved")
    if source.discovered_at is None:
        row = wait_for_discovery(source, body)
        number = "" if is_dry else f" (onboarding {row.pk})"
        notes.append(f"{what} wait until {name} is discovered{number}")
        reason = "waits for the discovery of its source"
        return [replace(change, reason=reason) for change in group]
    row = begin(body)
    number = "ID" if is_dry else str(row.pk)
    notes.append(f"{what} are PROPOSED: POST /api/v1/onboardings/{number}:approve")
    return [replace(change, reason="PROPOSED") for change in group]


def _body(source: Datasource, items: list[Item]) -> dict[str, Any]:
    fields = items[0].fields
    return {
        "datasource": source.name,
        "capture": fields.get("capture"),
        "policy": fields.get("policy") or {},
        "exclude": fields.get("exclude") or [],
        "target_database": fields.get("target_database"),
        "shards": fields.get("shards"),
        "include": [item.key[1] for item in items if item.kind == PATTERN],
        "tables": {
            item.key[1]: {k: item.fields[k] for k in CHOICES if k in item.fields}
            for item in items
            if item.kind == TABLE
        },
    }


def _place(items: list[Item], pointer: str) -> str:
    """A pointer into the request as one into the document."""
    found = _POINTER.fullmatch(pointer)
    if not found:
        return f"{items[0].at}{pointer}"
    part, name, rest = found.groups()
    if part == "include":
        names = [i for i in items if i.kind == PATTERN] + [
            i for i in items if i.kind == TABLE
        ]
        return names[int(name)].at
    name = unescape(name)
    return next((f"{i.at}{rest}" for i in items if i.key[1] == name), items[0].at)


# ------------------------------------------------------------------------- change


def update_table(change: Change, new: list[Change]) -> list[Change]:
    """Settings change at once, choices while PROPOSED; the rest is told as skipped.

    One that waits for a discovery is asked for anew, by adding it to `new`.
    """
    source, name = change.item.key
    pipeline = _pipeline(source, name)
    if pipeline is None:
        whole = _with_kept_fields(change)
        forget_waiting(source, name)
        new.append(whole)
        return []
    of_policy = tuple(d for d in change.differences if d.field == "policy")
    labels = tuple(d for d in change.differences if d.field in LABELS)
    others = tuple(d for d in change.differences if d.field not in {"policy", *LABELS})
    done = []
    if labels:
        done.append(_label(change, pipeline, labels))
    if of_policy:
        change_table_policy(pipeline, _patch(pipeline.policy, of_policy[0].after))
        done.append(replace(change, differences=of_policy))
    if others:
        done.append(_choose(change, pipeline, others))
    return done


def _label(
    change: Change, pipeline: Pipeline, differences: tuple[Difference, ...]
) -> Change:
    change = replace(change, differences=differences)
    if pipeline.lake_table_id is None:
        reason = "it is not in the lake yet: approve it and import again"
        return replace(change, action="skip", reason=reason)
    given = {d.field: d.after for d in differences}
    owner = given["owner"] or "" if "owner" in given else None
    tags = given["tags"] or () if "tags" in given else None
    label_tables([pipeline.lake_table_id], Labels(owner=owner, tags=tags), by=ACTOR)
    return change


def _with_kept_fields(change: Change) -> Change:
    """What the file does not state of one that waits stays as it is."""
    item, key = change.item, (change.item.kind, change.item.key)
    found = (each.fields for each in items_that_wait() if (each.kind, each.key) == key)
    return replace(
        change, item=replace(item, fields={**next(found, {}), **item.fields})
    )


def _choose(
    change: Change, pipeline: Pipeline, differences: tuple[Difference, ...]
) -> Change:
    fields = {d.field for d in differences}
    if pipeline.state == PROPOSED and fields <= set(CHOICES):
        data = {k: v for k, v in change.item.fields.items() if k in CHOICES}
        choose_for(pipeline, parse_choices(data, ""), principal=OPERATOR)
        return replace(change, differences=differences)
    reason = (
        f"it is {pipeline.state}: its plan is fixed; remove the table and import again"
    )
    return replace(change, action="skip", differences=differences, reason=reason)


def _pipeline(source: str, name: str) -> Pipeline | None:
    rows = Pipeline.objects.exclude(state__in=[RETIRED, REMOVING]).filter(
        source_table__database__datasource__name=source, plan__source=name
    )
    return rows.select_related("source_table__database__datasource").first()


def _patch(before: Mapping[str, Any], after: Mapping[str, Any] | None) -> Any:
    """A merge patch from one set of settings to the other."""
    return {**dict.fromkeys(before), **(after or {})}
