"""Where a driver goes with the answer it got: the addresses, or nowhere."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.job import ErrorFact, JobSpec, SecretAnswer, error_from, outcome_of
from ingest.contract.members import as_data, value_of
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.run import access_of
from ingest.driver.secrets import Secrets
from ingest.driver.serve import Driver
from ingest.sources.connections import connections_of
from ingest.sources.port import Snapshot, SourceAccess
from ingest.sources.registry import open_source
from tests.waiting import LIMIT_SECONDS

SOURCE = SourceSpec(1, "postgresql", "db.example", 5432, "shop", "ann", "datasource:1")
BOTH = ("192.0.2.7", "2001:db8::7")


NO_JVM: Any = SimpleNamespace(
    sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=None))
)


def access(**changes: Any) -> SourceAccess:
    given = {"tls": changes.pop("tls", "off"), "kind": changes.pop("kind", SOURCE.kind)}
    spec = dataclasses.replace(SOURCE, **given)
    return SourceAccess(spec, "pw", "sluice:x", **changes)


def jdbc_options(at: SourceAccess) -> dict[str, str]:
    return connections_of(at).jdbc_options(at, "SELECT 1", Snapshot("0-1"))


@pytest.mark.parametrize("tls", ["off", "require", "verify"])
def test_jdbc_keeps_the_name_and_goes_to_the_addresses(tls) -> None:
    options = jdbc_options(access(tls=tls, addresses=BOTH))
    assert options["url"] == "jdbc:postgresql://db.example:5432/shop"
    assert options["socketFactory"].endswith(".PinnedSocketFactory")
    assert options["socketFactoryArg"] == "192.0.2.7,2001:db8::7;30,10,3;sluice:x"
    assert "socketFactory" not in jdbc_options(access(tls=tls))


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_mariadbs_driver_does_so_too(kind) -> None:
    options = jdbc_options(access(kind=kind, addresses=BOTH))
    assert options["url"].startswith("jdbc:mysql://db.example:5432/?permitMysqlScheme")
    assert options["socketFactory"].endswith(".PinnedMariadbSocketFactory")
    assert options["socketFactoryArg"] == "192.0.2.7,2001:db8::7;30,10,3;sluice:x"
    assert "socketFactory" not in jdbc_options(access(kind=kind))


@pytest.mark.parametrize(
    ("addresses", "host", "hostaddr"),
    [(BOTH, "db.example,db.example", ",".join(BOTH)), ((), "db.example", None)],
)
def test_psycopg_goes_there_too(addresses, host, hostaddr, monkeypatch) -> None:
    asked: dict[str, Any] = {}

    def connect(_: str, **given: Any) -> None:
        asked.update(given)
        raise psycopg.OperationalError("no")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(psycopg.OperationalError), open_source(access(tls="verify", addresses=addresses)):  # fmt: skip
        pass
    assert (asked["host"], asked["hostaddr"]) == (host, hostaddr)


class Pipe:
    """Answers each question with what the test put there."""

    def __init__(self, *answers: SecretAnswer) -> None:
        self.answers = list(answers)
        self.driver: Driver | None = None

    def send(self, kind: str, **payload: Any) -> None:
        told = {"type": "secret", **as_data(self.answers.pop(0))}
        threading.Thread(target=self.driver._handle, args=(told,)).start()


def asked(answer: SecretAnswer) -> SecretAnswer:
    pipe = Pipe(answer)
    pipe.driver = Driver(NO_JVM, pipe)
    return pipe.driver._secrets.ask(answer.ref)


def test_the_answer_arrives_whole() -> None:
    given = SecretAnswer("datasource:1", "pw", "db.example", BOTH)
    assert asked(given) == given
    assert "pw" not in repr(given)
    assert value_of(SecretAnswer, as_data(given)) == given


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ("invalid_request", InvalidRequest),
        ("terminal", TerminalError),
        ("transient", TransientError),
    ],
)
def test_a_refusal_ends_the_job_as_the_host_says(outcome, kind) -> None:
    fact = ErrorFact("network_denied", "may not point there", "look")
    with pytest.raises(kind) as raised:
        asked(SecretAnswer("datasource:1", outcome=outcome, error=fact))
    assert (raised.value.code, raised.value.hint) == ("network_denied", "look")
    assert outcome_of(raised.value) == outcome
    assert outcome_of(error_from(outcome, fact)) == outcome


def test_a_malformed_answer_ends_nothing() -> None:
    driver = Driver(NO_JVM, Pipe())
    assert driver._handle({"type": "secret", "ref": "datasource:1", "what": 1})
    assert driver._handle({"type": "secret"})
    assert driver._secrets._wanted == {}


def test_an_answer_that_comes_too_late_is_not_given_to_the_next_job() -> None:
    asked_for: list[str] = []
    secrets = Secrets(asked_for.append, seconds=0.01)
    with pytest.raises(TransientError, match="was not handed"):
        secrets.ask("datasource:1")
    secrets.receive(SecretAnswer("datasource:1", "old"))
    with pytest.raises(TransientError, match="was not handed"):
        secrets.ask("datasource:1")
    new = SecretAnswer("datasource:1", "new")
    secrets = Secrets(lambda _: secrets.receive(new), seconds=9)
    assert secrets.ask("datasource:1") == new
    secrets.receive(SecretAnswer("datasource:1", "second answer to the first"))
    assert secrets.ask("datasource:1") == new


def test_who_asked_later_gets_what_comes_after_the_first_gave_up() -> None:
    got: list[SecretAnswer] = []
    asks = threading.Event(), threading.Event()
    given = SecretAnswer("datasource:1", "pw")
    later = threading.Thread(target=lambda: got.append(secrets.ask("datasource:1")))

    def request(ref: str) -> None:
        if threading.current_thread() is later:
            asks[0].set()
            asks[1].wait(LIMIT_SECONDS)
        else:
            later.start()
            asks[0].wait(LIMIT_SECONDS)

    secrets = Secrets(request, seconds=0.01)
    with pytest.raises(TransientError, match="was not handed"):
        secrets.ask("datasource:1")
    secrets.receive(given)
    asks[1].set()
    later.join(LIMIT_SECONDS)
    assert got == [given]
    assert secrets._wanted == {}


def test_a_password_for_another_host_is_not_sent_to_this_one() -> None:
    table = TableSpec(1, "public", "t", "shop", "t", "/l", "/s", (), ("id",))
    spec = JobSpec("j", 1, "sync", "apply", "/l", table, FenceSpec("/f", 1), SOURCE)

    def access_with(host: str) -> SourceAccess:
        answer = SecretAnswer("datasource:1", "pw", host, BOTH)
        return access_of(JobRun(spec, lambda ref: answer))

    assert access_with("db.example").addresses == BOTH
    with pytest.raises(TransientError) as raised:
        access_with("other.example")
    assert raised.value.code == "source_moved"
