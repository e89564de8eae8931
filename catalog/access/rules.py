"""Rules on rows and columns as rows: read them as values, save them, remove them.

Saving and removing bump the policy version and write the audit in one transaction.
"""

from __future__ import annotations

import hashlib
import hmac

from django.conf import settings

from catalog.access.grants import grants_of
from catalog.access.policy import Principal, Securable
from catalog.access.table_rights import HeldRule, Limits, limits_of
from catalog.models import AccessRule
from catalog.names import LAKE


def hash_key() -> str:
    """Goes into every hash of a masked value: without it they cannot be looked up."""
    secret = settings.SECRET_KEY.encode()
    return hmac.new(secret, b"sluice mask", hashlib.sha256).hexdigest()[:32]


def rules_on_lake() -> list[HeldRule]:
    """All of them; few beside grants. One statement."""
    return [as_value(row) for row in AccessRule.objects.filter(datasource=LAKE)]


def limits_for(principal: Principal) -> Limits:
    """What limits the principal on lake tables, now. Two statements."""
    if not principal.is_active:
        return Limits()
    grants = [] if principal.is_admin else grants_of(principal, datasource=LAKE)
    return limits_of(principal, grants, rules_on_lake(), hash_key=hash_key())


def as_value(row: AccessRule) -> HeldRule:
    return HeldRule(
        on=Securable(row.datasource, row.database, row.table),
        applies_to=frozenset(row.applies_to),
        excepted=frozenset(row.excepted),
        column=row.column,
        mask=row.mask,
        expression=row.expression,
        id=row.pk,
    )
