"""Who may make, approve and discard plans: rights at the source and in the lake.

`manage` on a source says nothing about the lake: with a place of their choice its
holder would read rows where they may select, and plant tables where others read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from catalog.access.enforcement import decision_for, denied, require
from catalog.access.grants import grants_of
from catalog.access.policy import HeldGrant, Principal, Privilege, Securable, decide
from catalog.models import Datasource, Grant
from catalog.names import LAKE
from ingest.models import Onboarding

# ------------------------------------------------------------------------- source


def managed_databases(
    principal: Principal, source: Datasource
) -> Callable[[str], bool]:
    """Whether the principal has `manage` on a database of the source. Patterns mean
    tables of these alone: "a.*" fits those of a schema called "a.b", too."""
    held = _held(principal, source.name)

    @cache
    def is_managed(database: str) -> bool:
        on = Securable(source.name, database)
        return decide(principal, Privilege.MANAGE, on, held).allowed

    return is_managed


def require_patterns(
    principal: Principal, datasource: str, patterns: Iterable[str]
) -> None:
    """`manage` on each database that the patterns name, on the whole source when one
    of them does not name its database."""
    for on in _named_by(datasource, patterns):
        require(principal, Privilege.MANAGE, on)


def require_plan(principal: Principal, onboarding: Onboarding) -> None:
    """What making this plan took: the same for changing, approving and discarding."""
    for on in _sources_of(onboarding):
        require(principal, Privilege.MANAGE, on)


def manages_plan(principal: Principal, onboarding: Onboarding) -> bool:
    return all(
        decision_for(principal, Privilege.MANAGE, on).allowed
        for on in _sources_of(onboarding)
    )


def _sources_of(onboarding: Onboarding) -> list[Securable]:
    request, source = onboarding.request, onboarding.datasource.name
    # what waits for a discovery names tables without including them
    named = _named_by(source, [*request.get("include", ()), *request.get("tables", ())])
    databases = onboarding.tables.values_list("source_table__database__name", flat=True)
    found = {*named, *(Securable(source, name) for name in databases.distinct())}
    return sorted(found, key=str)


def _named_by(datasource: str, patterns: Iterable[str]) -> list[Securable]:
    names = {pattern.partition(".")[0] for pattern in patterns}
    if any("*" in name or not name for name in names):
        return [Securable(datasource)]
    return [Securable(datasource, name) for name in sorted(names)]


# --------------------------------------------------------------------------- lake


def require_targets(
    principal: Principal, source: Datasource, written_to: Iterable[tuple[str, bool]]
) -> None:
    """AccessDenied, the same whether the database is there or not.

    written_to: lake databases, each with whether people chose it. `manage` on it
    decides. The one that a schema of the source gets by default is also for who has
    `manage` on the whole source, as long as no grant names it.
    """
    wanted = set(written_to)
    chosen = {database for database, is_chosen in wanted if is_chosen}
    held = _held(principal)

    def manages(on: Securable) -> bool:
        return decide(principal, Privilege.MANAGE, on, held).allowed

    missing = {name for name, _ in wanted if not manages(Securable(LAKE, name))}
    if missing - chosen and manages(Securable(source.name)):
        named = Grant.objects.filter(datasource=LAKE, database__in=missing)
        missing &= chosen | set(named.values_list("database", flat=True))
    if missing:
        raise denied(principal, Privilege.MANAGE, Securable(LAKE, min(missing)))


def require_target(principal: Principal, database: str) -> None:
    """The same for one that was chosen."""
    on = Securable(LAKE, database)
    if not decision_for(principal, Privilege.MANAGE, on).allowed:
        raise denied(principal, Privilege.MANAGE, on)


def _held(principal: Principal, datasource: str = "") -> list[HeldGrant]:
    return [] if principal.is_admin else grants_of(principal, datasource=datasource)
