"""What a server says that lets nobody read its log."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from core.errors import TransientError
from ingest.sources.postgresql.log import connection
from tests.source_access import postgresql_at


def test_a_server_without_a_sender_left_is_no_unreachable_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise psycopg.OperationalError(
            'connection failed: connection to server at "::1" failed: FATAL:  number of'
            ' requested standby connections exceeds "max_wal_senders" (currently 10)'
        )

    monkeypatch.setattr(connection, "connect", refuse)
    access = postgresql_at("postgresql://ann:pw@127.0.0.1:1/shop")
    with (
        pytest.raises(TransientError, match="no connection for its log") as busy,
        connection.open_log(access),
    ):
        pass
    assert busy.value.code == "source_log_busy"
    assert "raise max_wal_senders" in busy.value.hint
