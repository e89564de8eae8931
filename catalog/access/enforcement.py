"""`require()`: the decision applied to a request, before anything is touched.

What the caller may not even see answers as an absent thing does; what they may see
but not do is denied by name of the missing privilege, and audited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.access import audit
from catalog.access.grants import grants_around, rows_for
from catalog.access.policy import (
    Decision,
    HeldGrant,
    Principal,
    Privilege,
    Securable,
    decide,
    granting,
)
from catalog.names import LAKE
from core.errors import AccessDenied, NotFound

_ABSENT = {
    "datasource": "there is no datasource %(name)s",
    "database": "there is no database %(name)s",
    "table": "there is no table %(name)s",
}


def decision_for(
    principal: Principal, privilege: Privilege, securable: Securable
) -> Decision:
    """`decide` with the principal's stored grants; at most one statement."""
    return decide(principal, privilege, securable, _grants(principal, securable))


def held_on(principal: Principal, securable: Securable) -> frozenset[Privilege]:
    """Every privilege that the principal has there; at most one statement."""
    grants = _grants(principal, securable)
    return frozenset(
        privilege
        for privilege in Privilege
        if decide(principal, privilege, securable, grants).allowed
    )


def _grants(principal: Principal, securable: Securable) -> Sequence[HeldGrant]:
    if principal.is_admin or not principal.is_active:
        return ()
    return grants_around(principal, securable)


@dataclass(frozen=True, slots=True)
class May:
    """What the principal may do with a source, a database or a table."""

    operate: bool
    manage: bool


def may_on(principal: Principal, securable: Securable) -> May:
    held = held_on(principal, securable)
    return May(operate=Privilege.OPERATE in held, manage=Privilege.MANAGE in held)


def may_register(principal: Principal) -> bool:
    """Administrators, and who holds `manage` on a name that may be registered."""
    if principal.is_admin:
        return True
    giving = granting(Privilege.MANAGE)
    held = rows_for(principal).filter(privilege__in=giving, database="")
    return held.exclude(datasource=LAKE).exists()


def require(principal: Principal, privilege: Privilege, securable: Securable) -> None:
    """Return when allowed; else NotFound (may not see it) or AccessDenied."""
    grants = _grants(principal, securable)
    if decide(principal, privilege, securable, grants).allowed:
        return
    if not decide(principal, Privilege.DISCOVER, securable, grants).allowed:
        raise absent(securable)
    raise denied(principal, privilege, securable)


def denied(
    principal: Principal, privilege: Privilege, securable: Securable
) -> AccessDenied:
    """The error to raise; it is in the audit already."""
    audit.record(
        f"{privilege.value}.denied",
        on=str(securable),
        actor=principal.name,
        is_allowed=False,
    )
    return AccessDenied(
        "privilege '%(privilege)s' on %(object)s is missing",
        privilege=privilege,
        object=securable,
        code="missing_privilege",
        hint="an administrator can grant it",
        facts={"privilege": privilege.value, "on": str(securable)},
    )


def require_admin(principal: Principal) -> None:
    """AccessDenied unless the caller is an active administrator."""
    if principal.is_admin and principal.is_active:
        return
    audit.record("admin.denied", actor=principal.name, is_allowed=False)
    raise AccessDenied(
        "this is for administrators",
        code="admin_only",
        hint="ask an administrator",
    )


def absent(securable: Securable) -> NotFound:
    """The same words whether it is not there or not for this caller."""
    what = ("datasource", "database", "table")[len(securable.parts) - 1]
    return NotFound(_ABSENT[what], name=securable, code=f"{what}_not_found")
