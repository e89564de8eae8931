"""What transactional tests wrote goes without Django's `flush`.

That truncates every table, which makes hundreds of new files, and stores content types
and permissions anew, a tenth of a second of two processors. It also waits for whoever
has read from any of them in a transaction that is still open.
"""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.test import TransactionTestCase

# What no test writes and `migrate` stored.
KEPT = ("django_migrations", "django_content_type", "auth_permission")
LARGE_BYTES = 4 << 20
EMPTY = f"""
DO $$
DECLARE one regclass;
BEGIN
  SET LOCAL session_replication_role = replica;  -- no key is looked at, no trigger fired
  FOR one IN
    SELECT oid FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
      AND relname NOT IN {KEPT} AND pg_relation_size(oid) > 0
  LOOP
    IF pg_relation_size(one) > {LARGE_BYTES} THEN
      EXECUTE format('TRUNCATE %s CASCADE', one);
    ELSE
      EXECUTE format('DELETE FROM %s', one);
    END IF;
  END LOOP;
END $$
"""


def empty(case: TransactionTestCase) -> None:
    """In place of `TransactionTestCase._fixture_teardown`."""
    names: Any = case._databases_names(include_mirrors=False)  # type: ignore[attr-defined]
    for name in names:
        with connections[name].cursor() as cursor:
            cursor.execute(EMPTY)
