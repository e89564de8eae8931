"""The one decision: may this principal do that to this thing? Pure.

Default deny. UI, REST and the SQL gateway ask the same function; SQL filters in
`catalog.access.visibility` say the same thing for whole lists, and a test compares
the two.

Privileges        what they allow                            and imply
discover          see that it exists, its columns and state  —
select            read rows                                  discover
operate           test, discover, sync, pause, cancel        discover
manage            register, onboard, approve, remove         operate, discover
Administrators may do everything. `manage` does not imply `select`: who runs the
pipes need not read what flows in them. A grant covers everything below the thing
it names; a grant below a container lets the container itself be seen, no more.

Roles are names for sets of privileges, given like one privilege: viewer = discover,
analyst = + select, operator = + operate, editor = + manage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from catalog.names import LAKE, join_name
from core.errors import InvalidRequest


class Privilege(StrEnum):
    DISCOVER = "discover"
    SELECT = "select"
    OPERATE = "operate"
    MANAGE = "manage"


IMPLIED: dict[Privilege, frozenset[Privilege]] = {
    Privilege.DISCOVER: frozenset({Privilege.DISCOVER}),
    Privilege.SELECT: frozenset({Privilege.SELECT, Privilege.DISCOVER}),
    Privilege.OPERATE: frozenset({Privilege.OPERATE, Privilege.DISCOVER}),
    Privilege.MANAGE: frozenset(
        {Privilege.MANAGE, Privilege.OPERATE, Privilege.DISCOVER}
    ),
}


class Role(StrEnum):
    VIEWER = "viewer"
    ANALYST = "analyst"
    OPERATOR = "operator"
    EDITOR = "editor"


_VIEWER = frozenset({Privilege.DISCOVER})
ROLES: dict[Role, frozenset[Privilege]] = {
    Role.VIEWER: _VIEWER,
    Role.ANALYST: _VIEWER | {Privilege.SELECT},
    Role.OPERATOR: _VIEWER | {Privilege.SELECT, Privilege.OPERATE},
    Role.EDITOR: frozenset(Privilege),
}
Grantable = Privilege | Role


GIVEN_BY: dict[Privilege, frozenset[Grantable]] = {
    wanted: frozenset(p for p, given in IMPLIED.items() if wanted in given)
    | frozenset(r for r, given in ROLES.items() if wanted in given)
    for wanted in Privilege
}


def granting(privilege: Privilege) -> frozenset[Grantable]:
    """The privileges and roles whose grant gives `privilege`."""
    return GIVEN_BY[privilege]


@dataclass(frozen=True, slots=True)
class Securable:
    """A datasource, one of its databases, or a table. "" = the level above."""

    datasource: str
    database: str = ""
    table: str = ""

    def __post_init__(self) -> None:
        if not self.datasource or (self.table and not self.database):
            raise InvalidRequest(
                "a securable is a datasource, datasource.database or "
                "datasource.database.table",
                code="invalid_securable",
            )

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(p for p in (self.datasource, self.database, self.table) if p)

    def covers(self, other: Securable) -> bool:
        """Whether `other` is this thing or lies below it."""
        return other.parts[: len(self.parts)] == self.parts

    def __str__(self) -> str:
        return join_name(*self.parts)


@dataclass(frozen=True, slots=True)
class Principal:
    """A user with their present groups."""

    name: str
    groups: frozenset[str] = frozenset()
    is_admin: bool = False
    is_active: bool = True

    @property
    def grantees(self) -> frozenset[str]:
        return frozenset({f"user:{self.name}", *(f"group:{g}" for g in self.groups)})


@dataclass(frozen=True, slots=True)
class HeldGrant:
    """A stored grant as a value; `grantee` is "user:ann" or "group:bi".

    columns  of `select` on one lake table: only these; empty for all. Such a grant
             gives no privilege by itself: it opens these columns to SQL, and what SQL
             knows of a table (`catalog.access.table_rights`).
    """

    grantee: str
    privilege: Grantable
    on: Securable
    id: int = 0
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """reason  why, as a short word for logs: admin, grant, below, inactive, no_grant
    via        the grant that decided, None for administrators and denials
    """

    allowed: bool
    reason: str
    via: HeldGrant | None = None


def decide(
    principal: Principal,
    privilege: Privilege,
    securable: Securable,
    grants: Iterable[HeldGrant],
) -> Decision:
    """Whether `principal` has `privilege` on `securable`, given all `grants`.

    Grants of others are ignored, so passing too many is harmless.
    """
    if not principal.is_active:
        return Decision(allowed=False, reason="inactive")
    if principal.is_admin:
        return Decision(allowed=True, reason="admin")
    held = tuple(grants)
    for via in giving(principal, privilege, securable, held):
        return Decision(allowed=True, reason="grant", via=via)
    if privilege is Privilege.DISCOVER:
        for via in held:
            if via.columns:
                continue
            if via.grantee in principal.grantees and securable.covers(via.on):
                return Decision(allowed=True, reason="below", via=via)
    return Decision(allowed=False, reason="no_grant")


def giving(
    principal: Principal,
    privilege: Privilege,
    securable: Securable,
    grants: Iterable[HeldGrant],
) -> tuple[HeldGrant, ...]:
    """All grants by which an active principal has `privilege` there."""
    return tuple(
        grant
        for grant in grants
        if grant.on.covers(securable) and _gives(grant, principal, privilege)
    )


def lake_patterns(
    principal: Principal, privilege: Privilege, grants: Iterable[HeldGrant]
) -> tuple[str, ...]:
    """What an engine's Guard needs: `*`, `db.*` and `db.table` on lake names."""
    if not principal.is_active:
        return ()
    if principal.is_admin:
        return ("*",)
    held = _things(principal, privilege, grants)
    return tuple(sorted({_pattern(on) for on in held if on.datasource == LAKE}))


def source_patterns(
    principal: Principal, privilege: Privilege, grants: Iterable[HeldGrant]
) -> tuple[str, ...]:
    """The same on sources: their names, those of databases and of tables in them. Of
    an administrator none: all is open."""
    if not principal.is_active or principal.is_admin:
        return ()
    held = _things(principal, privilege, grants)
    return tuple(sorted({str(on) for on in held if on.datasource != LAKE}))


def _things(
    principal: Principal, privilege: Privilege, grants: Iterable[HeldGrant]
) -> list[Securable]:
    """What the grants name by which they have the privilege."""
    return [each.on for each in grants if _gives(each, principal, privilege)]


def _gives(grant: HeldGrant, principal: Principal, privilege: Privilege) -> bool:
    is_sufficient = grant.privilege in granting(privilege) and not grant.columns
    return is_sufficient and grant.grantee in principal.grantees


def _pattern(on: Securable) -> str:
    if not on.database:
        return "*"
    return join_name(on.database, on.table or "*")
