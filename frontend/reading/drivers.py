"""Where a compaction of a table may run, as its page asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.models import Table
from ingest.contract.job import DriverSpec
from ingest.lake.hudi.identity import shares_lock
from ingest.maintenance import compaction_drivers


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """is_shared: the table's lock allows a second driver. by_policy: where it runs when
    nobody says anything; None = in the shared driver. most: what may be given."""

    is_shared: bool
    by_policy: DriverSpec | None
    most: DriverSpec


def driver_for(table: Table) -> DriverChoice:
    return DriverChoice(
        shares_lock(table.identity),
        compaction_drivers.by_policy(table),
        compaction_drivers.most(),
    )
