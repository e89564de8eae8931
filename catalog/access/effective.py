"""What a principal may do on a thing, and by which grants: for people who ask why.

Decides nothing: every answer is `catalog.access.policy`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Right:
    """One privilege there. `via` names every grant that gives it, not just one."""

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


def _right(
    principal: Principal, privilege: Privilege, on: Securable, held: list[HeldGrant]
) -> Right:
    decision = decide(principal, privilege, on, held)
    if decision.reason == "below" and decision.via:
        return Right(privilege, decision, (decision.via,))
    if decision.reason != "grant":
        return Right(privilege, decision, ())
    return Right(privilege, decision, giving(principal, privilege, on, held))
