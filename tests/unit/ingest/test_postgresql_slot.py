"""What a replication slot says of itself."""

from __future__ import annotations

import pytest

from core.errors import TerminalError
from ingest.contract.source_positions import PostgresLog
from ingest.sources.postgresql.log.slot import Slot, kept_slot


@pytest.mark.parametrize("reason", ["idle_timeout", ""])
def test_a_slot_that_the_server_gave_up_says_why(reason: str) -> None:
    """No more room helps one that stood still for too long; before PostgreSQL 17 there
    is no reason."""
    slot = Slot(9, False, True, 0, None, "lost", lost_by=reason)
    after = PostgresLog.decode("lsn:7:1:0/9")
    with pytest.raises(TerminalError, match=reason or "wal_status lost") as caught:
        kept_slot(slot, "sluice_1", after)
    assert caught.value.code == "log_lost"
