"""The policy as the gateway's engines need it: a version and a principal's rights.

Read per statement by the gateway; must not know what an engine is.
"""

from __future__ import annotations

from catalog.access.grants import grants_of
from catalog.access.policy import Privilege, lake_patterns, source_patterns
from catalog.access.policy_version import READ_VERSION, current_version
from catalog.access.principal_policy import PrincipalPolicy
from catalog.access.principals import principal_for
from catalog.access.rules import all_rules, hash_key
from catalog.access.table_rights import limits_of

__all__ = ["READ_VERSION", "current_version", "policy_for"]


def policy_for(username: str) -> PrincipalPolicy:
    """That user's rights now; an unknown user is inactive and has none."""
    # The version comes first: rights read later can only be newer than it says.
    version = current_version()
    principal = principal_for(username)
    grants = grants_of(principal) if principal.is_active else []
    rules = all_rules() if principal.is_active else []
    limits = limits_of(principal, grants, rules, hash_key=hash_key())
    return PrincipalPolicy(
        principal=username,
        version=version,
        is_active=principal.is_active,
        is_admin=principal.is_admin and principal.is_active,
        select=lake_patterns(principal, Privilege.SELECT, grants),
        discover=lake_patterns(principal, Privilege.DISCOVER, grants),
        sources=source_patterns(principal, Privilege.SELECT, grants),
        sources_seen=source_patterns(principal, Privilege.DISCOVER, grants),
        tables=limits.tables,
    )
