"""What is asked of all tables of a source at once."""

from __future__ import annotations

from catalog.access.enforcement import may_on
from catalog.access.policy import Principal, Securable
from catalog.models import Datasource, Table
from core.errors import SluiceError
from ingest.models.states import FAILED
from ingest.pipelines import table_commands
from ingest.pipelines.source_overview import tables_synced_from


def failed_tables(principal: Principal, source: Datasource) -> list[Table]:
    """Those of this source that failed and that this caller may resume."""
    found = tables_synced_from(principal, source).filter(status=FAILED)
    return [
        table
        for table in found.select_related("database__datasource").order_by("id")
        if may_on(principal, _securable(table)).operate
    ]


def resume_failed(principal: Principal, source: Datasource) -> tuple[int, int]:
    """(resumed, not resumed): each on its own, where it stopped. After a password was
    put right, or a server is back, all tables of a source wait for that."""
    tables = failed_tables(principal, source)
    resumed = 0
    for table in tables:
        try:
            table_commands.resume(table, actor=principal.name)
        except SluiceError:
            # moved meanwhile, or it cannot go on: its page says why
            continue
        resumed += 1
    return resumed, len(tables) - resumed


def _securable(table: Table) -> Securable:
    database = table.database
    return Securable(database.datasource.name, database.name, table.name)
