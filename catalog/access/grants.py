"""Grants as rows: read them as values, give them, take them back.

Giving and taking bump the policy version and write the audit in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from catalog.access import audit
from catalog.access.policy import (
    Grantable,
    HeldGrant,
    Principal,
    Privilege,
    Role,
    Securable,
)
from catalog.access.policy_version import bump_version
from catalog.models import Datasource, Grant
from catalog.names import LAKE, check_group_name, split_name
from core.errors import InvalidRequest, NotFound
from core.sentences import Sentence

USER, GROUP = "user", "group"
LONGEST_PART = 100
MOST_COLUMNS = 2_000


def rows_for(principal: Principal) -> QuerySet[Grant]:
    """Grant rows to the user or to a group of theirs."""
    return Grant.objects.filter(
        Q(principal_kind=USER, principal_name=principal.name)
        | Q(principal_kind=GROUP, principal_name__in=sorted(principal.groups))
    )


def whole_rows_for(principal: Principal) -> QuerySet[Grant]:
    """Those that are not for some columns only, and so give a privilege."""
    return rows_for(principal).filter(columns=[])


def grants_of(principal: Principal, *, datasource: str = "") -> list[HeldGrant]:
    """Their grants as values, optionally only those on one datasource."""
    rows = rows_for(principal)
    if datasource:
        rows = rows.filter(datasource=datasource)
    return [as_value(row) for row in rows]


def grants_around(principal: Principal, on: Securable) -> list[HeldGrant]:
    """Their grants on that thing, above and below it: all that `decide` needs there."""
    rows = rows_for(principal).filter(datasource=on.datasource)
    if on.database:
        rows = rows.filter(database__in=["", on.database])
    if on.table:
        rows = rows.filter(table__in=["", on.table])
    return [as_value(row) for row in rows]


def grants_on(principal: Principal, things: Collection[Securable]) -> list[HeldGrant]:
    """Their grants on these things and above them, in one statement; those on other
    things of the same names are among them."""
    rows = rows_for(principal).filter(
        datasource__in={thing.datasource for thing in things},
        database__in={"", *(thing.database for thing in things)},
        table__in={"", *(thing.table for thing in things)},
    )
    return [as_value(row) for row in rows]


def as_value(row: Grant) -> HeldGrant:
    return HeldGrant(
        grantee=row.principal,
        privilege=grantable(row.privilege),
        on=Securable(row.datasource, row.database, row.table),
        id=row.pk,
        columns=frozenset(row.columns),
    )


def parse_securable(text: str) -> Securable:
    """ "lake.shop.orders" as a value; lake names fold to lower case as SQL does."""
    parts = split_name(text)
    if len(parts) > 3:
        raise InvalidRequest(
            "'%(text)s' has more than three parts",
            text=text,
            code="invalid_securable",
            hint="grant on datasource, datasource.database or a table in it",
        )
    if any(len(part) > LONGEST_PART for part in parts):
        raise InvalidRequest(
            "a part of the name is too long",
            most=LONGEST_PART,
            code="invalid_securable",
            hint="at most %(most)s characters between dots",
        )
    if parts[0].lower() == LAKE:
        parts = tuple(part.lower() for part in parts)
    return Securable(*parts)


def grantable(name: str) -> Grantable:
    """The privilege or role of that name; ValueError for any other."""
    return Role(name) if name in set(Role) else Privilege(name)


def grant(
    *, principal: str, privilege: str, on: str, by: str, columns: Iterable[str] = ()
) -> Grant:
    """Give `privilege`, or the role of that name, to "user:ann" or "group:bi".

    `columns`: with `select` on one table, only these, by their names in the lake.
    Giving what is already given returns the grant that is there. InvalidRequest for
    unknown users, datasources and privileges.
    """
    kind, name = parse_grantee(principal)
    held = _parse_privilege(privilege)
    securable = parse_securable(on)
    named = _parse_columns(columns, held, securable)
    if not Datasource.objects.filter(name=securable.datasource).exists() and (
        securable.datasource != LAKE
    ):
        raise InvalidRequest(
            "there is no datasource '%(datasource)s'",
            datasource=securable.datasource,
            code="unknown_datasource",
            hint="`on` starts with a datasource: lake, lake.shop, lake.shop.orders",
        )
    fields = {
        "principal_kind": kind,
        "principal_name": name,
        "privilege": held.value,
        "datasource": securable.datasource,
        "database": securable.database,
        "table": securable.table,
        "columns": named,
    }
    try:
        with transaction.atomic():
            row = Grant.objects.create(granted_by=by, **fields)
            bump_version()
            audit.record(
                "grant.create",
                on=str(securable),
                actor=by,
                principal=principal,
                privilege=held.value,
                columns=named,
            )
    except IntegrityError:
        return Grant.objects.get(**fields)
    return row


def revoke(grant_id: int, *, by: str) -> None:
    """Take a grant back; holds for every statement started after this returned."""
    with transaction.atomic():
        row = Grant.objects.select_for_update().filter(pk=grant_id).first()
        if row is None:
            raise NotFound(
                "there is no grant %(number)s",
                number=grant_id,
                code="grant_not_found",
            )
        audit.record(
            "grant.delete",
            on=row.on,
            actor=by,
            principal=row.principal,
            privilege=row.privilege,
            columns=row.columns,
        )
        row.delete()
        bump_version()


def _parse_columns(columns: Iterable[str], held: Grantable, on: Securable) -> list[str]:
    """In lower case, each once, sorted; empty for a grant on whole things."""
    found = sorted({column.lower() for column in columns})
    if not found:
        return []
    if held is not Privilege.SELECT or not on.table:
        raise InvalidRequest(
            "columns are granted by the privilege select, on one table",
            code="invalid_columns",
            hint='{"privilege": "select", "on": "lake.shop.orders", "columns": ["id"]}',
        )
    if len(found) > MOST_COLUMNS or any(len(c) > LONGEST_PART * 3 for c in found):
        raise InvalidRequest(
            "at most %(most)s columns, each of at most %(length)s characters",
            most=MOST_COLUMNS,
            length=LONGEST_PART * 3,
            code="invalid_columns",
        )
    return found


def parse_grantee(text: str) -> tuple[str, str]:
    """("user" | "group", name); InvalidRequest for users that are not there."""
    kind, name = split_grantee(text)
    if kind == USER and not User.objects.filter(username=name).exists():
        raise InvalidRequest(
            "there is no user '%(name)s'",
            name=name,
            code="unknown_user",
            hint="create the user first, or grant to a group",
        )
    return kind, name


def split_grantee(text: str) -> tuple[str, str]:
    """The same, of a user who may come later."""
    kind, _, name = text.partition(":")
    if kind not in {USER, GROUP} or not name:
        raise InvalidRequest(
            "'%(text)s' is not a principal",
            text=text,
            code="invalid_principal",
            hint=Sentence('write "user:<name>" or "group:<name>"'),
        )
    return (kind, check_group_name(name)) if kind == GROUP else (kind, name)


def check_role(text: str) -> Role:
    """The role of that name; administrators are not made by grants."""
    if text == "admin":
        raise InvalidRequest(
            "administrators are not scoped: the role admin is not granted on a thing",
            code="admin_is_not_scoped",
            hint='PATCH /api/v1/users/<name> {"is_admin": true}',
        )
    if text not in set(Role):
        raise InvalidRequest(
            "'%(text)s' is not a role",
            names=", ".join(Role),
            text=text,
            code="unknown_role",
            hint="one of: %(names)s",
        )
    return Role(text)


def check_privilege(text: str) -> Privilege:
    if text not in set(Privilege):
        raise InvalidRequest(
            "'%(text)s' is not a privilege",
            names=", ".join(Privilege),
            text=text,
            code="unknown_privilege",
            hint="one of: %(names)s",
        )
    return Privilege(text)


def _parse_privilege(text: str) -> Grantable:
    try:
        return grantable(text)
    except ValueError:
        raise InvalidRequest(
            "'%(text)s' is neither a privilege nor a role",
            names=", ".join([*Privilege, *Role]),
            text=text,
            code="unknown_privilege",
            hint="one of: %(names)s",
        ) from None
