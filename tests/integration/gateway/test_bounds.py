"""How much one address, one connection and one session may have."""

from __future__ import annotations

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from tests.integration.gateway.test_crowds import knock
from tests.integration.gateway.test_pyhive import connect
from tests.integration.gateway.test_server import limited, read_all

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


def test_an_address_has_so_many_connections(users, tmp_path):
    with limited(tmp_path, connections_per_address=1) as gateway:
        held = knock(gateway, "ann")
        assert held.recv(5)
        assert b"too many connections" in read_all(knock(gateway, "bob"))
        elsewhere = knock(gateway, "bob", address="127.0.0.2")
        assert elsewhere.recv(5) == b"\x05\0\0\0\0"
        elsewhere.close()
        held.close()


def test_a_connection_has_so_many_sessions_and_a_session_so_many_operations(
    users, tmp_path
):
    limits = {"sessions_per_connection": 1, "operations_per_session": 1}
    bounded = limited(tmp_path, **limits, max_statement=20)
    with bounded as gateway, connect(gateway) as connection:
        reply = connection.client.OpenSession(ttypes.TOpenSessionReq())
        assert "too many open sessions" in reply.status.errorMessage
        first, second = connection.cursor(), connection.cursor()
        with pytest.raises(OperationalError, match="has 21 characters"):
            first.execute("SELECT 7" + " " * 13)
        first.execute("SELECT 7")
        with pytest.raises(OperationalError, match="1 open operations"):
            second.execute("SELECT 7")
        first.close()
