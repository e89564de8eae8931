"""What a principal may do on a thing, and by which grants: for people who ask why.

Decides nothing: every answer is `catalog.access.policy`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.access.grants import GROUP, grants_of, parse_grantee
from catalog.access.policy import (
    Decision,
    HeldGrant,
    Principal,
    Privilege,
    Securable,
    decide,
    giving,
)
from catalog.access.principals import principal_for
from catalog.access.rules import as_value, rows_on
from catalog.access.table_rights import limits_of
from catalog.models import AccessRule


@dataclass(frozen=True, slots=True)
class Right:
    """One privilege there. `via` names every grant that gives it, not just one; where
    the reason is "columns", those that give it on some columns."""

    privilege: Privilege
    decision: Decision
    via: tuple[HeldGrant, ...]


def principal_named(text: str) -> Principal:
    """ "user:ann" as she is now, or "group:bi" as a member without more."""
    kind, name = parse_grantee(text)
    if kind == GROUP:
        return Principal(name="", groups=frozenset({name}))
    return principal_for(name)


def rights_on(principal: Principal, on: Securable) -> tuple[Right, ...]:
    """Each privilege with its decision; one statement."""
    found = grants_of(principal, datasource=on.datasource)
    held = sorted(found, key=lambda grant: grant.id)
    return tuple(_right(principal, privilege, on, held) for privilege in Privilege)


@dataclass(frozen=True, slots=True)
class Explained:
    """columns  the only ones that exist for the principal; None for all
    column_grants, filters, masks  the rows that make it so
    """

    on: Securable
    privileges: tuple[Right, ...]
    columns: list[str] | None
    column_grants: tuple[HeldGrant, ...]
    filters: tuple[AccessRule, ...]
    masks: tuple[AccessRule, ...]


def explained(principal: Principal, on: Securable) -> Explained:
    """What the principal may do on a thing, and what limits them if it is a table."""
    held = grants_of(principal, datasource=on.datasource)
    binding = [row for row in rows_on(on) if as_value(row).binds(principal)]
    limits = limits_of(principal, held, [as_value(row) for row in binding])
    columns = limits.at(on).columns
    given = tuple(grant for grant in held if grant.columns and grant.on == on)
    return Explained(
        on=on,
        privileges=rights_on(principal, on),
        columns=None if columns is None else sorted(columns),
        column_grants=() if columns is None else given,
        filters=tuple(row for row in binding if not row.column),
        masks=tuple(row for row in binding if row.column),
    )


def for_the_bound(found: Explained) -> Explained:
    """Without the rules on what does not exist for the principal: those name it."""
    may_see = any(r.decision.allowed for r in found.privileges)
    columns = found.columns
    if not may_see and columns is None:
        return replace(found, filters=(), masks=())
    exist = (r for r in found.masks if columns is None or r.column in columns)
    return replace(found, masks=tuple(exist))


def _right(
    principal: Principal, privilege: Privilege, on: Securable, held: list[HeldGrant]
) -> Right:
    decision = decide(principal, privilege, on, held)
    if decision.reason == "below" and decision.via:
        return Right(privilege, decision, (decision.via,))
    opened = tuple(
        g for g in held if g.columns and (g.privilege, g.on) == (privilege, on)
    )
    if opened and not decision.allowed:
        return Right(privilege, Decision(allowed=False, reason="columns"), opened)
    if decision.reason != "grant":
        return Right(privilege, decision, ())
    return Right(privilege, decision, giving(principal, privilege, on, held))
