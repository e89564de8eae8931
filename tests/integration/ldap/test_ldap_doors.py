"""The same login through the doors: a SQL client by HiveServer2, and the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from thrift.transport.TTransport import TTransportException

from catalog.access import ldap_login
from catalog.models import AuditEntry
from gateway.limits import GatewayLimits
from tests.integration.gateway.running import RunningGateway
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.ldap.conftest import spec_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings(
        "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
    ),
]
PASSWORD = "ann's long password"
NOON = "134000000000000000"


@pytest.fixture
def gateway(directory, tmp_path):
    running = RunningGateway(tmp_path, GatewayLimits(close_disabled_within=0.2))
    yield running
    running.close()


def test_a_sql_client_comes_in_and_goes_when_the_directory_forgets_him(
    gateway, directory, settings
):
    dn = directory.add_person("ann", PASSWORD)
    link = connect(gateway, "ANN", PASSWORD)
    link.cursor().execute("SELECT 1")
    assert set(gateway.gateway.server.users()) == {"ann"}
    with pytest.raises(Exception, match="not right"):
        connect(gateway, "ann", "wrong")
    directory.remove(dn)
    settings.SLUICE_LDAP = replace(settings.SLUICE_LDAP, recheck_seconds=-1)
    assert ldap_login.recheck_due() == 1
    assert eventually(lambda: not gateway.gateway.server.users())
    with pytest.raises(TTransportException):
        link.close()


def test_sessions_end_with_the_password_they_began_with(
    gateway, directory, settings, client
):
    dn = directory.add_person("ann", PASSWORD, pwdLastSet=NOON)
    link = connect(gateway, "ann", PASSWORD)
    link.cursor().execute("SELECT 1")
    client.post("/login", {"username": "ann", "password": PASSWORD})
    settings.SLUICE_LDAP = replace(settings.SLUICE_LDAP, recheck_seconds=-1)
    assert ldap_login.recheck_due() == 1
    assert client.get("/tokens").status_code == 200
    directory.date_password(dn, str(int(NOON) + 1))
    assert ldap_login.recheck_due() == 1
    assert client.get("/tokens").status_code == 302
    assert eventually(lambda: not gateway.gateway.server.users())
    with pytest.raises(TTransportException):
        link.close()
    line = AuditEntry.objects.filter(action="user.update", object="ann").get()
    assert line.facts["reason"] == "password_changed_there"
    assert User.objects.get(username="ann").is_active


def test_a_directory_that_is_away_is_told_as_such(gateway, directory, settings):
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    with pytest.raises(Exception, match=r"directory.*08S01"):
        connect(gateway, "ann", PASSWORD)
    assert gateway.gateway.store.is_open  # the database's fuse is not the directory's


def test_the_page_tells_a_wrong_password_from_a_directory_away(
    directory, settings, client
):
    directory.add_person("ann", PASSWORD)
    form = {"username": "ann", "password": PASSWORD}
    assert client.post("/login", {**form, "password": "wrong"}).status_code == 403
    assert client.post("/login", form).status_code == 302
    assert client.get("/tokens").status_code == 200
    User.objects.update(is_active=False)
    assert client.get("/tokens").status_code == 302  # the session died with it
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    away = client.post("/login", {**form, "username": "bob"})
    assert away.status_code == 503
    assert "local accounts keep working" in away.content.decode()
