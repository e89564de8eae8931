"""Alert targets of a document. Neither a webhook's secret nor its address is in it: the
path may be what lets people in. An import takes both from the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from catalog.access.grants import parse_securable
from catalog.names import LAKE
from config.config_export.diff import Change
from config.config_export.document import TARGET, Item
from core.errors import InvalidRequest
from ingest.alerts.chat import CHATS
from ingest.alerts.targets import NewTarget, change_target, create_target, scope_text
from ingest.models.alerts import AlertTarget

ACTOR = "manage.py"
FIXED = "where a target's messages go is fixed: delete it and create it again"
UNKNOWN = (
    "a target's url and secret are not in the file: name the variables that hold them"
    " under url_env and secret_env, or POST /api/v1/alert-targets"
)


def targets_of_configuration() -> Iterator[Item]:
    for row in AlertTarget.objects.all():
        is_mail = row.kind == AlertTarget.EMAIL
        place = {"address": row.address} if is_mail else {"host": _host(row.address)}
        fields = {"kind": row.kind, **place, "kinds": sorted(row.kinds)}
        if row.language:
            fields["language"] = row.language
        yield Item(TARGET, (row.name,), fields | {"on": scope_text(row) or LAKE})


def normal_target(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As `targets_of_configuration` spells them."""
    found = dict(fields)
    if "on" in found:
        found["on"] = str(parse_securable(found["on"]))
    if "kinds" in found:
        found["kinds"] = sorted(set(found["kinds"]))
    if "host" in found:
        found["host"] = found["host"].lower()
    return found


def apply_target(change: Change, variable: Callable[[str, str], str]) -> Change:
    """`variable(name, pointer)`: what the environment says, or InvalidRequest."""
    item, fields = change.item, change.item.fields
    if change.action == "create":
        new = NewTarget(
            name=item.key[0],
            kind=fields["kind"],
            address=fields.get("address", ""),
            kinds=fields.get("kinds", ()),
            on=fields.get("on", ""),
            language=fields.get("language", ""),
        )
        if new.kind != AlertTarget.EMAIL:
            is_signed = bool(item.secret_env) or new.kind in CHATS
            if not is_signed or not item.address_env:
                return replace(change, action="skip", reason=UNKNOWN)
            url = variable(item.address_env, "/url_env")
            _check_host(url, fields.get("host"))
            secret = variable(item.secret_env, "/secret_env") if item.secret_env else ""
            new = replace(new, url=url, secret=secret)
        create_target(new, by=ACTOR)
        return change
    if any(each.field in {"kind", "host", "address"} for each in change.differences):
        return replace(change, action="skip", reason=FIXED)
    given = {each.field: each.after for each in change.differences}
    change_target(item.key[0], **given, by=ACTOR)
    return change


def _check_host(url: str, stated: str | None) -> None:
    if stated is not None and _host(url) != stated:
        raise InvalidRequest(
            f"the variable leads to another host than {stated}",
            code="other_host",
            hint="correct host or the variable",
            facts={"errors": [{"pointer": "/url_env", "detail": "another host"}]},
        )


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
