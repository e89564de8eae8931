"""Datasources and policies of a document, by the services that REST uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catalog import datasources
from catalog.access.grants import parse_securable
from catalog.access.rules import as_document, as_stated, normal_rule
from catalog.labels import check_tags
from catalog.models import Database, Datasource
from catalog.names import join_name, split_name
from catalog.secrets import password_of
from config.config_export.diff import Change, with_password
from config.config_export.document import GRANT, POLICY, RULE, TARGET, Item, rule_item
from config.config_export.located import located
from config.config_export.targets import normal_target
from core.errors import InvalidRequest, TerminalError
from ingest.pipelines.policies.policy import changed
from ingest.pipelines.policies.store import change_policy

ACTOR = "manage.py"
FIXED = "the kind of a datasource is fixed: remove it and register it again"


def normal(item: Item) -> Item:
    """The item with names and settings spelled as they are stored."""
    with located(item):
        if item.kind == GRANT:
            principal, held, on, *columns = item.key
            on = str(parse_securable(on))
            return replace(item, key=(principal, held, on, *columns))
        if item.kind == RULE:
            stated = normal_rule(as_stated(item.fields))
            return rule_item(as_document(stated), item.at)
        if item.kind == TARGET:
            return replace(item, fields=normal_target(item.fields))
        if item.kind == POLICY:
            on = join_name(*split_name(item.key[0]))
            taken_back = {k: None for k, v in item.fields.items() if v is None}
            fields = changed({}, item.fields) | taken_back
            return replace(item, key=(on,), fields=fields)
        fields = dict(item.fields)
        if policy := fields.get("policy"):
            fields["policy"] = dict(sorted(changed({}, policy).items()))
        if groups := fields.get("groups"):
            fields["groups"] = sorted(set(groups))
        if tags := fields.get("tags"):
            fields["tags"] = check_tags(tags)
        return replace(item, fields=fields)


def apply_datasource(change: Change, password: str | None, notes: list[str]) -> Change:
    if change.action == "extra":
        return change
    name, fields = change.item.key[0], change.item.fields
    if change.action == "create":
        given = {"host": "", "database": "", "username": "", **_given(fields)}
        given["password"] = password or ""
        datasources.create_datasource(
            datasources.NewDatasource(name=name, **given), by=ACTOR
        )
        notes += _next_steps(name, has_password=password is not None)
        return change
    row = Datasource.objects.get(name=name)
    if any(each.field == "kind" for each in change.differences):
        return replace(change, action="skip", reason=FIXED)
    if password is not None and not _has(row, password):
        change = with_password(change)
    if change.action == "change":
        # of options the whole of what is stated
        names = {d.field.partition(".")[0] for d in change.differences}
        given = _given({name: fields[name] for name in names & fields.keys()})
        update = datasources.DatasourceChange(**given | {"password": password})
        datasources.update_datasource(name, update, by=ACTOR)
    if not row.secret and password is None:
        notes.append(_needs_password(name))
    return change


def apply_policy(change: Change) -> Change:
    parts = split_name(change.item.key[0])
    source = Datasource.objects.filter(name=parts[0]).first()
    if source is None or source.is_lake or len(parts) > 2:
        raise InvalidRequest(
            f"'{change.item.key[0]}' is no datasource and no database of one",
            code="unknown_datasource",
            hint="a policy is on shop or on shop.public; a table has it under 'policy'",
            facts={"errors": [{"pointer": "/on", "detail": "unknown"}]},
        )
    database = None
    if len(parts) == 2:
        # its tables come with a discovery; the policy waits for them here
        database, _ = Database.objects.get_or_create(datasource=source, name=parts[1])
    change_policy(source, database, dict(change.item.fields))
    return change


def _next_steps(name: str, *, has_password: bool) -> list[str]:
    needs = [] if has_password else [_needs_password(name)]
    return [*needs, f"discover {name}: POST /api/v1/datasources/{name}:discover"]


def _needs_password(name: str) -> str:
    return (
        f"datasource {name} needs_password: PATCH /api/v1/datasources/{name} "
        '{"password": …}, or import with password_env'
    )


def _has(row: Datasource, password: str) -> bool:
    try:
        return password_of(row) == password
    except TerminalError:  # its key is gone: the new one is stored under another
        return False


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As the service takes them: nobody is "" there, and no options are {}."""
    nothing: dict[str, Any] = {"owner": "", "options": {}}
    return {k: nothing.get(k) if v is None else v for k, v in fields.items()}
