"""One table of a source as it is now, written as a whole discovery would write it."""

from __future__ import annotations

from django.db import transaction

from catalog.discovery import store
from catalog.models import Datasource, Table
from catalog.sources.access import access_for
from catalog.sources.port import DiscoveredTable, SourceReader, discoverer_of
from core.clock import SystemClock


def reader_for(datasource: Datasource, *, job: object = "discovery") -> SourceReader:
    """A reader of this datasource, to be used in a `with` block."""
    return discoverer_of(datasource.kind).reader(access_for(datasource, job=job))


def table_at_source(
    datasource: Datasource, database: str, name: str, *, job: object = "discovery"
) -> DiscoveredTable | None:
    """One table as the source has it now: for the look right before a run."""
    with reader_for(datasource, job=job) as reader:
        return reader.table(database, name)


def save_look(datasource: Datasource, found: DiscoveredTable) -> bool:
    """Whether the columns of a known table had changed since it was last read.

    What belongs to a discovery of everything stays: when that saw the table, by which
    it tells what vanished, and what the login may see.
    """
    with transaction.atomic():
        known = Table.objects.select_for_update().get(
            database__datasource=datasource,
            database__name=found.database,
            name=found.name,
        )
        counts = store.save_page(
            datasource,
            [found],
            seen_at=known.seen_at or SystemClock().now(),
            of_server={name: known.identity.get(name) for name in store.OF_SERVER},
        )
    return bool(counts.changed)
