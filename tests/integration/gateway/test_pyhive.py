"""A real client against the whole gateway with a fake engine."""

from __future__ import annotations

import contextlib
import threading

import pytest
from pyhive import hive
from pyhive.exc import OperationalError
from TCLIService import ttypes
from thrift.transport.TTransport import TTransportException

from catalog.models import AuditEntry
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.conftest import PASSWORD
from tests.waiting import LIMIT_SECONDS, wait_for

# thrift's client forgets its socket when opening fails or the peer hangs up.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


def connect(gateway, user="ann", password=PASSWORD, **options):
    return hive.connect(
        host="127.0.0.1",
        port=gateway.port,
        username=user,
        password=password,
        auth="LDAP",
        **options,
    )


def eventually(condition):
    return wait_for(condition, "what the engine should have done")


def test_a_statement_gives_its_rows(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        assert cursor.description[0][:2] == ("7", "INT_TYPE")
        assert cursor.fetchall() == [(7,)]


def test_many_rows_come_in_batches_and_none_is_lost(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.arraysize = 1000
        cursor.execute("SELECT * FROM range(25001)")
        assert [row[0] for row in cursor.fetchall()] == list(range(25001))


def test_an_empty_result_still_has_columns(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM range(0)")
        assert cursor.fetchall() == []
        assert [column[0] for column in cursor.description] == ["id"]


def test_an_error_keeps_class_and_state_and_loses_the_stack(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        with pytest.raises(OperationalError) as raised:
            cursor.execute("SELEC 1")
        status = raised.value.args[0].status
        assert status.sqlState == "42601"
        assert status.errorMessage.startswith("[PARSE_SYNTAX_ERROR]")
        assert "org.apache" not in status.errorMessage
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", "wrong"), ("nobody", PASSWORD), ("ann", "slt_x_y"), ("", PASSWORD)],
)
def test_wrong_credentials_are_refused_with_the_words_drivers_look_for(
    gateway, user, password
):
    with pytest.raises(TTransportException, match="Error validating the login"):
        connect(gateway, user=user or "x", password=password)
    assert gateway.engine.journal == []


def test_async_execution_polls_to_the_end(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=0.3)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("select slow", async_=True)
        states = [cursor.poll().operationState]
        assert states == [ttypes.TOperationState.FINISHED_STATE]
        assert cursor.poll().hasResultSet is True


def test_cancel_reaches_the_engine_and_is_idempotent(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("select slow", async_=True)
        assert eventually(lambda: gateway.engine.journal)
        cursor.cancel()
        cursor.cancel()
        assert cursor.poll().operationState == ttypes.TOperationState.CANCELED_STATE
    assert gateway.engine.cancelled == 1


def test_a_handle_means_nothing_to_another_user_or_connection(gateway):
    with connect(gateway) as mine, connect(gateway, user="bob") as his:
        cursor = mine.cursor()
        cursor.execute("SELECT 1")
        stolen = cursor._operationHandle
        thief = his.cursor()
        thief._operationHandle, thief._state = stolen, cursor._STATE_RUNNING
        for steal in (
            lambda: thief.fetchall(),
            lambda: thief.poll(),
            lambda: thief.cancel(),
        ):
            with pytest.raises(OperationalError, match="Invalid OperationHandle"):
                steal()
        his._sessionHandle, kept = mine._sessionHandle, his._sessionHandle
        with pytest.raises(OperationalError, match="Invalid SessionHandle"):
            his.cursor().execute("SELECT 1")
        his._sessionHandle = kept
        assert cursor.fetchall() == [(1,)]


def test_disconnect_ends_the_session_and_its_statement(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    connection = connect(gateway)
    connection.cursor().execute("select slow", async_=True)
    assert eventually(lambda: gateway.engine.sessions)
    assert eventually(lambda: gateway.engine.journal)
    connection._transport.close()
    assert eventually(lambda: not gateway.engine.sessions)
    assert gateway.engine.cancelled == 1


def test_disconnect_ends_a_synchronous_statement_too(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    connection = connect(gateway)

    def wait_for_rows():
        with contextlib.suppress(OperationalError, TTransportException, OSError):
            connection.cursor().execute("select slow")

    worker = threading.Thread(target=wait_for_rows)
    worker.start()
    assert eventually(lambda: gateway.engine.journal)
    connection._transport._trans.handle.shutdown(2)
    assert eventually(lambda: gateway.engine.cancelled == 1)
    worker.join(LIMIT_SECONDS)


def test_a_statement_runs_under_the_rights_as_of_now(gateway, users):
    from catalog.access.grants import grant

    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        before = gateway.engine.policies["ann"]
        assert before.select == ()
        grant(principal="user:ann", privilege="select", on="lake.shop", by="root")
        cursor.execute("SELECT 1")
        after = gateway.engine.policies["ann"]
    assert after.select == ("shop.*",)
    assert after.version > before.version


def test_disabling_a_user_ends_his_connections_only(gateway, users):
    with connect(gateway, user="bob") as other:
        mine = connect(gateway)
        mine.cursor().execute("SELECT 1")
        from catalog.access.users import UserChange, update_user

        users["bob"].is_superuser = True
        users["bob"].save()
        update_user("ann", UserChange(is_active=False), by="bob")
        assert eventually(lambda: len(gateway.gateway.server.connections) == 1)
        other.cursor().execute("SELECT 1")
        with pytest.raises(TTransportException):
            connect(gateway)


def test_settings_outside_the_list_are_refused(gateway):
    key = "spark.sql.catalog.evil"
    with pytest.raises(OperationalError, match=key):
        connect(gateway, configuration={f"set:hiveconf:{key}": "x"})
    far_too_many = {"set:hiveconf:spark.sql.shuffle.partitions": "20000000"}
    with pytest.raises(OperationalError, match="between 1 and 999"):
        connect(gateway, configuration=far_too_many)
    connect(gateway, configuration={"set:hivevar:day": "1"}).close()
    with pytest.raises(OperationalError, match="another user"):
        connect(gateway, configuration={"hive.server2.proxy.user": "bob"})
    with connect(gateway, configuration={"mapred.job.tracker": "local"}) as connection:
        with pytest.raises(OperationalError, match=key):
            connection.cursor().execute(f"SET {key}=x")
        connection.cursor().execute("SET spark.sql.session.timeZone=UTC")


def _execute(connection, sql, overlay):
    request = ttypes.TExecuteStatementReq(connection.sessionHandle, sql, overlay)
    return connection.client.ExecuteStatement(request).status


def test_settings_of_one_statement_reach_the_engine_or_are_refused(gateway):
    with connect(gateway) as connection:
        zone = {"spark.sql.session.timeZone": "Asia/Shanghai"}
        assert _execute(connection, "SELECT 1", zone).statusCode == 0
        assert _execute(connection, "SELECT 2", None).statusCode == 0
        refused = _execute(connection, "SELECT 1", {"spark.sql.catalog.evil": "x"})
        assert "spark.sql.catalog.evil may not be changed" in refused.errorMessage
        for sql in ("SET sluice.label=1", "RESET sluice.label", "USE default"):
            refused = _execute(connection, sql, zone)
            assert "send it without spark.sql.session.timeZone" in refused.errorMessage
    ran = zip(gateway.engine.journal, gateway.engine.settings, strict=True)
    assert [(sql, own) for (_, sql), own in ran] == [
        ("SELECT 1", zone),
        ("SELECT 2", {}),
    ]


def test_plain_keys_of_a_session_reach_the_engine_or_are_refused(gateway):
    with pytest.raises(OperationalError, match="may not be changed"):
        connect(gateway, configuration={"spark.driver.memory": "4g"})
    given = {"spark.sql.ansi.enabled": "true"}
    with connect(gateway, configuration=given) as connection:
        connection.cursor().execute("SELECT 1")
    opened = {"set:hiveconf:spark.sql.ansi.enabled": "true"}
    assert any(opened.items() <= one.items() for one in gateway.engine.configurations)


def test_an_engine_that_follows_another_knows_what_was_reset(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        for sql in ("SET TIME ZONE 'Asia/Shanghai'", "SET sluice.label=1"):
            cursor.execute(sql)
        cursor.execute("RESET sluice.label")
        gateway.do(gateway.engine.die)
        cursor.execute("SELECT 1")
        replayed = [sql for _, sql in gateway.engine.journal[-3:]]
        assert replayed == [
            "SET TIME ZONE 'Asia/Shanghai'",
            "RESET sluice.label",
            "SELECT 1",
        ]


@pytest.mark.parametrize("database", ["nowhere", "null", "defaultnull"])
def test_use_of_an_unknown_database_is_refused_without_the_engine(gateway, database):
    """Metabase once ended its URLs with "null" (metabase #51843)."""
    with pytest.raises(OperationalError, match="SCHEMA_NOT_FOUND") as raised:
        connect(gateway, database=database)
    status = raised.value.args[0].status
    assert status.sqlState == "42704"
    assert database in status.errorMessage
    assert all(database not in sql for _, sql in gateway.engine.journal)


def test_a_session_remembers_a_bounded_number_of_settings(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        for number in range(64):
            cursor.execute(f"SET sluice.label.x{number}=1")
        cursor.execute("SET sluice.label.x63=2")
        for beyond in ("SET sluice.label.y=1", "SET sluice.label.x1=" + "x" * 1000):
            with pytest.raises(OperationalError, match="remembers 64 settings"):
                cursor.execute(beyond)


def test_statements_are_audited_with_rows_and_outcome(gateway):
    with connect(gateway) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM range(3)")
        cursor.fetchall()
        cursor.close()
        with pytest.raises(OperationalError):
            connection.cursor().execute("SELEC 1")

    def rows():
        entries = AuditEntry.objects.filter(actor="ann")
        return {(e.action, e.facts.get("state"), e.facts.get("rows")) for e in entries}

    wanted = {
        ("statement.run", "FINISHED", None),
        ("statement.run", "ERROR", None),
        ("statement.fetch", None, 3),
    }
    assert eventually(lambda: wanted <= rows())


def test_the_engine_that_died_is_replaced_for_the_next_statement(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM range(5000)")
        cursor.fetchone()
        gateway.do(gateway.engine.die)
        with pytest.raises(OperationalError) as raised:
            cursor.fetchall()
        assert raised.value.args[0].status.sqlState == "08S01"
        cursor.execute("SELECT 2")
        assert cursor.fetchall() == [(2,)]
    assert gateway.engine.starts == 2


def test_an_engine_that_does_not_start_fails_the_statement_with_the_reason(gateway):
    gateway.engine.faults.failing_starts = 2  # the warm-up's and the statement's
    with connect(gateway) as connection, connection.cursor() as cursor:
        with pytest.raises(OperationalError, match="configured not to start") as raised:
            cursor.execute("SELECT 1")
        assert raised.value.args[0].status.sqlState == "08S01"
        cursor.execute("SELECT 2")
        assert cursor.fetchall() == [(2,)]


def test_a_result_is_asked_for_with_its_statement_and_nothing_else(users, gateway):
    cursor = connect(gateway).cursor()
    cursor.execute("SELECT 7")
    assert cursor.fetchall() == [(7,)]
    assert gateway.engine.asked_status == 0
