"""The one counter that every change of users, groups and grants raises."""

from __future__ import annotations

from django.db import connection, transaction

from catalog.models import PolicyVersion

# For readers with a connection of their own; no row before the first change: 1.
READ_VERSION = "SELECT version FROM catalog_policyversion WHERE id = 1"

_RAISE = """
INSERT INTO catalog_policyversion (id, version) VALUES (1, 2)
ON CONFLICT (id) DO UPDATE SET version = catalog_policyversion.version + 1
RETURNING version
"""


def current_version() -> int:
    """The number of the newest committed change; 1 before the first."""
    found = PolicyVersion.objects.filter(pk=1).values_list("version", flat=True).first()
    return 1 if found is None else found


def bump_version() -> int:
    """Raise the counter as of the caller's commit.

    Must run in the transaction of the change it counts.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "a policy version belongs to the transaction of its change"
        )
    with connection.cursor() as cursor:
        cursor.execute(_RAISE)
        return int(cursor.fetchone()[0])
