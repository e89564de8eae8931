"""What things look like in JSON. Add members, never rename or remove one.

Instants, positions and numbers that may pass 2^53 are strings; secrets are in no
body.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User

from catalog.access.effective import Right
from catalog.access.policy import HeldGrant, Principal, Role, Securable
from catalog.models import (
    ApiToken,
    AuditEntry,
    Database,
    Datasource,
    Grant,
    SchemaVersion,
    Table,
)
from catalog.names import LAKE, join_name
from catalog.schema.diff import columns_as_json, columns_from_json
from catalog.selectors.facts import TableFacts
from catalog.selectors.history import SchemaStep
from core.models import Job

Body = dict[str, object]
LARGEST_EXACT = 2**53


def instant(at: datetime | None) -> str | None:
    """ISO 8601 in UTC with Z."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def number(value: int | None) -> int | str | None:
    """A number while every JSON reader keeps it exactly, else a string."""
    if value is None or abs(value) <= LARGEST_EXACT:
        return value
    return str(value)


def datasource_body(row: Datasource) -> Body:
    return {
        "name": row.name,
        "kind": row.kind,
        "host": row.host,
        "port": row.port,
        "database": row.database,
        "username": row.username,
        "has_password": bool(row.secret),
        "tls": row.tls,
        "options": row.options,
        "version": row.version,
        "table_count": row.table_count,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        "tested_at": instant(row.tested_at),
        "test_result": row.test_result,
        "discovered_at": instant(row.discovered_at),
    }


def database_body(row: Database) -> Body:
    return {
        "name": row.name,
        "datasource": row.datasource.name,
        "qualified_name": join_name(row.datasource.name, row.name),
        "discovered_at": instant(row.discovered_at),
    }


def table_body(table: TableFacts, now: datetime | None = None) -> Body:
    return {
        "id": table.id,
        "datasource": table.datasource,
        "database": table.database,
        "name": table.name,
        "source_name": table.source_name,
        "qualified_name": join_name(table.datasource, table.database, table.name),
        "kind": table.kind,
        "comment": table.comment,
        "columns": table.columns,
        "record_key": table.record_key,
        "cursor": table.cursor or None,
        "partition_by": table.partition_by,
        "table_type": table.table_type or None,
        "index": {"type": table.index_type, "buckets": table.buckets}
        if table.index_type
        else None,
        "updates": _updates(table),
        "status": table.status,
        "status_reason": table.status_reason or _carried_how(table),
        "sync": table.sync,
        "lag_seconds": lag_seconds(table.caught_up_at, now),
        "last_commit": last_commit_body(table),
        "onboarding": str(table.onboarding) if table.onboarding else None,
        "names": names_body(table),
        "schema_version": table.schema_version,
        "estimated_rows": number(table.estimated_rows),
        "is_queryable": table.is_queryable,
    }


def _updates(table: TableFacts) -> str | None:
    if table.kind != Table.LAKE:
        return None
    return "partial" if table.partial_update_mode else "full"


def lag_seconds(
    caught_up_at: datetime | None, now: datetime | None = None
) -> float | None:
    """How old the newest fully carried state is; None before the first load."""
    if caught_up_at is None:
        return None
    age = (now or datetime.now(UTC)) - caught_up_at
    return round(max(0.0, age.total_seconds()), 1)


def last_commit_body(table: TableFacts) -> Body | None:
    if not table.last_commit_instant:
        return None
    return {
        "instant": table.last_commit_instant,
        "position": _position(table.last_commit_position),
        "epoch": number(table.last_commit_epoch),
        "at": instant(table.last_commit_at),
    }


def _carried_how(table: TableFacts) -> str:
    """Of a source's table, whose own status says nothing of its sync."""
    if not table.sync:
        return ""
    state, reason = table.sync["state"], table.sync["reason"]
    if table.carried_as:
        said = f"synced as lake.{table.carried_as}, which is {state}"
    else:
        said = f"its plan is {state}: see /api/v1/onboardings/{table.onboarding}"
    return f"{said}: {reason}" if reason else said


def names_body(table: TableFacts) -> Body:
    """How to name the data in queries; None while there is no lake table."""
    carried_as = table.carried_as
    if table.kind == Table.LAKE:
        carried_as = join_name(table.database, table.name)
    if not carried_as:
        return {"lake": None, "jdbc": None}
    return {"lake": f"{LAKE}.{carried_as}", "jdbc": carried_as}


def schema_body(table: TableFacts) -> Body:
    return {
        "table": table.id,
        "version": table.schema_version,
        "columns": table.columns,
    }


def schema_version_body(row: SchemaVersion) -> Body:
    """The columns of a former version."""
    columns = columns_as_json(columns_from_json(row.columns))
    return {"table": row.table_id, "version": row.version, "columns": columns}


def schema_step_body(step: SchemaStep) -> Body:
    changes = [
        {
            "kind": change.kind,
            "column": change.column,
            "before": change.before,
            "after": change.after,
            "is_breaking": change.is_breaking,
            "text": str(change),
        }
        for change in step.changes
    ]
    return {
        "version": step.version,
        "since": instant(step.since),
        "columns": step.columns,
        "changes": changes,
    }


def job_body(job: Job) -> Body:
    failed = bool(job.error_code or job.error_message)
    return {
        "id": str(job.pk),
        "kind": job.kind,
        "subject": job.subject,
        "state": job.state,
        "progress": {
            "phase": job.phase,
            "done": number(job.done),
            "total": number(job.total),
            "unit": job.unit,
        },
        "reason": job.reason,
        "error": {
            "code": job.error_code,
            "message": job.error_message,
            "hint": job.error_hint,
        }
        if failed
        else None,
        "attempts": job.attempts,
        "requested_by": job.requested_by,
        "created_at": instant(job.created_at),
        "started_at": instant(job.started_at),
        "finished_at": instant(job.finished_at),
    }


def user_body(user: User) -> Body:
    """A row with its groups prefetched."""
    return {
        "name": user.username,
        "groups": sorted(group.name for group in user.groups.all()),
        "is_admin": user.is_superuser,
        "is_active": user.is_active,
        "created_at": instant(user.date_joined),
        "last_login": instant(user.last_login),
    }


def grant_body(row: Grant) -> Body:
    """A grant is of a privilege or of a role; the other one is null."""
    is_role = row.privilege in set(Role)
    return {
        "id": row.pk,
        "principal": row.principal,
        "privilege": None if is_role else row.privilege,
        "role": row.privilege if is_role else None,
        "on": row.on,
        "granted_by": row.granted_by,
        "granted_at": instant(row.granted_at),
    }


def effective_body(
    principal: Principal, on: Securable, rights: tuple[Right, ...]
) -> Body:
    return {
        "groups": sorted(principal.groups),
        "is_active": principal.is_active,
        "is_admin": principal.is_admin,
        "on": str(on),
        "privileges": [
            {
                "privilege": right.privilege.value,
                "allowed": right.decision.allowed,
                "reason": right.decision.reason,
                "via": [_via_body(grant) for grant in right.via],
            }
            for right in rights
        ],
    }


def _via_body(grant: HeldGrant) -> Body:
    is_role = isinstance(grant.privilege, Role)
    return {
        "id": grant.id,
        "principal": grant.grantee,
        "privilege": None if is_role else grant.privilege.value,
        "role": grant.privilege.value if is_role else None,
        "on": str(grant.on),
    }


def token_body(row: ApiToken) -> Body:
    """Never with the secret; `hint` is the public part."""
    return {
        "id": row.pk,
        "name": row.name,
        "user": row.user.username,
        "hint": f"slt_{row.key_id}_…",
        "created_at": instant(row.created_at),
        "expires_at": instant(row.expires_at),
        "last_used_at": instant(row.last_used_at),
    }


def audit_body(row: AuditEntry) -> Body:
    return {
        "id": row.pk,
        "at": instant(row.at),
        "actor": row.actor,
        "action": row.action,
        "object": row.object,
        "door": row.door,
        "is_allowed": row.is_allowed,
        "address": row.address,
        "request_id": row.request_id,
        "facts": row.facts,
    }


def _position(position: Any) -> str | None:
    """Positions are strings; a stored {"from", "to"} shows where it has got to."""
    if position is None or isinstance(position, str):
        return position
    if isinstance(position, dict) and isinstance(position.get("to"), str):
        return str(position["to"])
    return json.dumps(position, separators=(",", ":"), ensure_ascii=False)
