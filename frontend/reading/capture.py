"""Log capture of a source on its page: source → reader → waiting → applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.access.policy import Principal
from catalog.models import Datasource
from ingest.models import SourceFollower
from ingest.models.states import LIVE
from ingest.pipelines.capture_status import CaptureStatus, TableCapture, capture_status
from ingest.pipelines.followers import LOST, is_followed

# The ones that lag most; all of them are in the list of tables.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class CaptureCard:
    """lag: of the table whose readers see the oldest; None = not known of any."""

    status: CaptureStatus
    tables: Sequence[TableCapture]
    live: int
    lag: float | None

    @property
    def is_wanted(self) -> bool:
        return self.status.desired == SourceFollower.RUNNING

    @property
    def is_ill(self) -> bool:
        return self.status.observed in {"failed", "silent"}

    @property
    def is_lost(self) -> bool:
        """Only a person's decision brings it on."""
        return self.is_ill and self.status.code in LOST

    @property
    def tone(self) -> str:
        return "bad" if self.is_ill else "warn"


def capture_of_source(principal: Principal, source: Datasource) -> CaptureCard | None:
    """None where no table is read from the log."""
    if not is_followed(source):
        return None
    status = capture_status(principal, source)
    lags = [t.lag_seconds for t in status.tables if t.lag_seconds is not None]
    return CaptureCard(
        status=status,
        tables=sorted(status.tables, key=_lag, reverse=True)[:SHOWN],
        live=sum(table.state == LIVE for table in status.tables),
        lag=max(lags, default=None),
    )


def _lag(table: TableCapture) -> float:
    return -1.0 if table.lag_seconds is None else table.lag_seconds
