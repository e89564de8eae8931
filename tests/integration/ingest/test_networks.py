"""A job gets its source's password only together with addresses that are allowed."""

from __future__ import annotations

import socket
import threading

import pytest

from catalog.models import Datasource
from core.models import Job
from ingest.hosting import SecretBroker
from ingest.pipelines import table_commands
from tests.integration.ingest.world import make_source
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.django_db


@pytest.fixture
def names(monkeypatch) -> dict[str, list[str] | Exception]:
    """What the name servers say, changeable while a test runs."""
    known: dict[str, list[str] | Exception] = {}
    real = socket.getaddrinfo

    def look_up(host, port, *args, **more):
        if host not in known:
            return real(host, port, *args, **more)
        said = known[host]
        if isinstance(said, Exception):
            raise said
        return [(socket.AF_INET, 1, 6, "", (address, port)) for address in said]

    monkeypatch.setattr("catalog.sources.access.socket.getaddrinfo", look_up)
    return known


def by_name(world, host: str = "db.example") -> None:
    Datasource.objects.filter(pk=world.source.pk).update(host=host)


def test_a_driver_gets_the_addresses_that_were_checked(world, names) -> None:
    names["db.example"] = ["192.0.2.7", "192.0.2.8"]
    by_name(world)
    world.onboard("orders")
    world.until_live("orders")
    for answer in world.launcher.answers:
        assert answer.value == "canary-password"
        assert (answer.host, answer.addresses) == (
            "db.example",
            ("192.0.2.7", "192.0.2.8"),
        )
        assert "canary" not in repr(answer)


def test_a_driver_is_told_whom_to_trust(world, tmp_path, monkeypatch) -> None:
    """Its environment is its own, so it cannot look for SSL_CERT_FILE itself."""
    authorities = tmp_path / "ca.pem"
    authorities.write_text("x")
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    world.onboard("orders")
    world.until_live("orders")
    assert {a.authorities for a in world.launcher.answers} == {str(authorities)}


def test_a_network_denied_after_the_approval_ends_the_load(world, settings) -> None:
    world.onboard("orders")
    settings.SLUICE_SOURCE_NETWORKS_DENIED = ["127.0.0.0/8"]
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    job = world.jobs("snapshot")[0]
    assert (job.state, job.attempts) == ("FAILED", 1)
    assert job.report["outcome"] == "invalid_request"
    assert job.error_code == "network_denied"
    assert "may not point to 127.0.0.1" in job.error_message
    assert "SLUICE_SOURCE_NETWORKS_DENIED" in job.error_hint
    assert world.launcher.secrets == []
    settings.SLUICE_SOURCE_NETWORKS_DENIED = []
    table_commands.retry_job(job.pk, actor="ann")
    world.until_live("orders")


def test_a_name_that_turns_leads_nowhere(world, names, settings) -> None:
    settings.SLUICE_SOURCE_NETWORKS_DENIED = ["169.254.0.0/16"]
    names["db.example"] = ["192.0.2.7"]
    by_name(world)
    world.onboard("orders")
    world.until_live("orders")
    given = len(world.launcher.secrets)
    names["db.example"] = ["192.0.2.7", "169.254.169.254"]
    job = table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).is_finished)
    job.refresh_from_db()
    assert (job.state, job.error_code) == ("FAILED", "network_denied")
    assert len(world.launcher.secrets) == given


def test_a_name_that_is_lost_for_a_while_stops_no_table(world, names) -> None:
    names["db.example"] = socket.gaierror(socket.EAI_NONAME, "not known")
    by_name(world)
    world.onboard("orders")
    job = world.jobs("snapshot")[0]
    world.until(lambda: job.events.filter(event="try_again").exists())
    names["db.example"] = ["192.0.2.7"]
    world.until_live("orders")
    job.refresh_from_db()
    assert job.state == "SUCCEEDED"
    assert job.attempts > 1


def test_slow_name_servers_hold_nothing_up(world, monkeypatch) -> None:
    """Blocked, the step would come back only with the look-up's own time-out."""
    answer_now = threading.Event()

    def slow(host, port, *args, **more):
        assert answer_now.wait(LIMIT_SECONDS)
        return [(socket.AF_INET, 1, 6, "", ("192.0.2.7", port))]

    monkeypatch.setattr("catalog.sources.access.socket.getaddrinfo", slow)
    by_name(world)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    pings = world.launcher.pings
    world.steps(10)
    assert world.launcher.pings > pings
    assert world.launcher.answers == []
    assert world.jobs("snapshot")[0].state == "RUNNING"
    answer_now.set()
    world.until(lambda: bool(world.launcher.answers))
    world.until_live("orders")


def test_nobody_gets_the_answer_to_a_dead_ones_question() -> None:
    source = make_source()
    desk = SecretBroker()
    desk.ask(f"datasource:{source.pk}", "")
    desk.ask(f"datasource:{source.pk}", "a-job")
    desk.forget("")
    found = desk.answered()
    assert [origin for _, origin in found] == ["a-job"]
    assert desk.answered() == []


@pytest.mark.parametrize("ref", ["datasource:0", "datasource:", "x", "datasource:²"])
def test_what_is_not_there_is_refused(ref) -> None:
    desk = SecretBroker()
    desk.ask(ref, "")
    [(answer, _)] = desk.answered()
    assert (answer.value, answer.outcome) == ("", "invalid_request")
    assert answer.error.code == "datasource_removed"


def test_a_secret_that_cannot_be_read_says_so(db) -> None:
    source = make_source()
    Datasource.objects.filter(pk=source.pk).update(secret="00000000:nonsense")
    desk = SecretBroker()
    desk.ask(f"datasource:{source.pk}", "")
    [(answer, _)] = desk.answered()
    assert (answer.value, answer.error.code) == ("", "secret_key_missing")
