"""What is there now, as items of the document. Reads rows; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User

from catalog.access.policy import Role
from catalog.access.rules import as_document, stated_as
from catalog.models import AccessRule, Datasource, ExternalIdentity, Grant, Table
from catalog.names import LAKE, join_name
from catalog.sources.registry import kind_named
from config.config_export.document import (
    DATASOURCE,
    GRANT,
    PATTERN,
    POLICY,
    TABLE,
    USER,
    Item,
    rule_item,
)
from config.config_export.targets import targets_of_configuration
from ingest.models import Pipeline, Policy
from ingest.models.states import REMOVING, RETIRED
from ingest.pipelines.deferred_onboardings import waiting_rows
from ingest.pipelines.shards import column_of

Fields = dict[str, Any]


def items_of_configuration() -> list[Item]:
    """Everything that an export writes, in no order."""
    return [
        *_users(),
        *_datasources(),
        *_policies(),
        *_tables(),
        *items_that_wait(),
        *_grants(),
        *_rules(),
        *targets_of_configuration(),
    ]


def grants_without_datasource() -> list[str]:
    """Grants that outlived their datasource: an import could not give them."""
    known = {LAKE, *Datasource.objects.values_list("name", flat=True)}
    rows = Grant.objects.exclude(datasource__in=known).order_by("id")
    return [str(row) for row in rows]


def _users() -> Iterator[Item]:
    identities = {row.user_id: row for row in ExternalIdentity.objects.all()}
    for row in User.objects.prefetch_related("groups"):
        identity = identities.get(row.pk)
        is_suspended = identity is not None and identity.is_suspended
        fields: Fields = {
            "groups": sorted(group.name for group in row.groups.all()),
            "is_admin": row.is_superuser,
            # what the directory took away is its decision, not one made here
            "is_active": row.is_active or is_suspended,
        }
        if identity is not None:
            fields["identity"] = {
                "provider": identity.provider,
                "subject": identity.subject,
            }
        yield Item(USER, (row.username,), fields)


def _datasources() -> Iterator[Item]:
    for row in Datasource.objects.exclude(kind=LAKE):
        fields: Fields = {
            name: getattr(row, name)
            for name in ("kind", "host", "port", "database", "username", "tls")
        }
        defaults = {o.name: o.default for o in kind_named(row.kind).options}
        options = dict(sorted((defaults | row.options).items()))
        fields |= _labels(row) | {"options": options}
        yield Item(DATASOURCE, (row.name,), fields)


def _policies() -> Iterator[Item]:
    for row in Policy.objects.exclude(given={}).select_related(
        "datasource", "database"
    ):
        database = row.database.name if row.database else ""
        on = join_name(row.datasource.name, database)
        yield Item(POLICY, (on,), dict(sorted(row.given.items())))


def _grants() -> Iterator[Item]:
    known = {LAKE, *Datasource.objects.values_list("name", flat=True)}
    for row in Grant.objects.filter(datasource__in=known):
        kind = "role" if row.privilege in set(Role) else "privilege"
        key = (row.principal, row.privilege, row.on, *row.columns)
        columns = {"columns": row.columns} if row.columns else {}
        yield Item(GRANT, key, {kind: row.privilege} | columns)


def _rules() -> Iterator[Item]:
    for row in AccessRule.objects.all():
        yield rule_item(as_document(stated_as(row)))


def _tables() -> Iterator[Item]:
    rows = Pipeline.objects.exclude(state__in=[RETIRED, REMOVING])
    related = ("source_table__database__datasource", "onboarding", "lake_table")
    for row in rows.select_related(*related):
        source = row.source_table.database.datasource.name
        fields = {"capture": row.capture, **plan_fields(row.plan)}
        if column := column_of(row):
            fields["shards"] = {"column": column}
        fields |= own(row.policy) | (_labels(row.lake_table) if row.lake_table else {})
        yield Item(TABLE, (source, str(row.plan["source"])), fields)


def _labels(row: Datasource | Table) -> Fields:
    given: Fields = {"owner": row.owner, "tags": list(row.tags)}
    return {name: value for name, value in given.items() if value}


def own(policy: Fields) -> Fields:
    return {"policy": dict(sorted(policy.items()))} if policy else {}


def plan_fields(plan: Fields) -> Fields:
    """What a re-creation needs: choices of a plan that waits, facts of one that is
    whole."""
    found: Fields = {"lake": f"{plan['database']}.{plan['name']}"}
    steps = {step["step"]: step for step in plan["steps"]}
    if create := steps.get("CreateTable"):
        found["record_key"] = (
            "row_hash"
            if create["row_hash"]
            else [name for name in create["record_key"] if name]
        )
        found["cursor"] = steps.get("ApplyChanges", {}).get("cursor")
        found["partition_by"] = list(create["partition_by"])
        found["buckets"] = create["buckets"]
        found["updates"] = create.get("updates", "full")
    else:
        found |= {
            name: proposal["value"]
            for name, proposal in plan["proposals"].items()
            if proposal["is_chosen"]
        }
    found["exclude_columns"] = list(plan["excluded"])
    found["as_text"] = list(plan.get("as_text", ()))
    return {name: value for name, value in found.items() if value}


def items_that_wait() -> Iterator[Item]:
    """Tables and patterns of sources that are not discovered yet."""
    for row in waiting_rows().select_related("datasource"):
        asked, source = row.request, row.datasource.name
        shared = own(asked.get("policy") or {})
        shared |= {k: asked[k] for k in ("capture", "shards") if asked.get(k)}
        for name, choices in asked["tables"].items():
            yield Item(TABLE, (source, name), {**shared, **choices})
        kept = {k: asked[k] for k in ("exclude", "target_database") if asked.get(k)}
        for pattern in asked["include"]:
            yield Item(PATTERN, (source, pattern), {**shared, **kept})
