"""What is asked of all tables of a source at once."""

from __future__ import annotations

from django.db.models import QuerySet

from catalog.access.policy import Principal, Privilege
from catalog.access.scope import in_scope, scope_of
from catalog.models import Datasource, Table
from catalog.names import LAKE
from core.errors import SluiceError
from ingest.models.states import FAILED
from ingest.pipelines import table_commands
from ingest.pipelines.source_overview import tables_synced_from

# One request with an Idempotency-Key is one transaction, which keeps all their rows.
MOST_AT_ONCE = 200


def failed_tables(principal: Principal, source: Datasource) -> QuerySet[Table]:
    """Those of this source that failed and that this caller may resume."""
    may = in_scope(scope_of(principal, LAKE, Privilege.OPERATE))
    return tables_synced_from(principal, source).filter(may, status=FAILED)


def resume_failed(principal: Principal, source: Datasource) -> tuple[int, int]:
    """(resumed, not resumed): each on its own, where it stopped, up to `MOST_AT_ONCE`.
    After a password was put right, or a server is back, all tables of a source wait for
    that."""
    tables = failed_tables(principal, source)
    found = tables.count()
    resumed = 0
    for table in tables.select_related("database__datasource").order_by("id")[
        :MOST_AT_ONCE
    ]:
        try:
            table_commands.resume(table, actor=principal.name)
        except SluiceError:
            # moved meanwhile, or it cannot go on: its page says why
            continue
        resumed += 1
    return resumed, found - resumed
