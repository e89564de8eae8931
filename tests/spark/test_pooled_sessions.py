"""Engine sessions that statements over REST leave to the next ones: nothing of a former
statement is in them, and they are never another user's. On a real engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.running import SECRET, RunningGateway
from tests.spark.engine_bench import EngineBench
from tests.spark.warm_gateway import WarmEngine
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/sql/statements"
UNENDED = {"INITIALIZED", "PENDING", "RUNNING"}
Run = Callable[..., Any]


@pytest.fixture
def engine(bench: EngineBench) -> WarmEngine:
    return WarmEngine(bench)


@pytest.fixture
def gateway(
    transactional_db: None,
    engine: WarmEngine,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[RunningGateway]:
    async def visible(user: str, pattern: str, *, limit: int) -> list[str]:
        return [pattern]

    running = RunningGateway(tmp_path, engine=engine)
    monkeypatch.setattr(running.gateway.store, "databases", visible)
    settings.SLUICE_GATEWAY_INTERNAL = str(running.internal_file)
    settings.SLUICE_SERVICE_SECRET = SECRET
    yield running
    running.close()


@pytest.fixture
def run(gateway: RunningGateway) -> Run:
    """Runs a statement over REST and answers its rows, or the state of its error, once
    its engine session is left, or closed."""
    from django.contrib.auth.models import User

    from catalog.access.grants import grant

    clients = {}
    for name in ("polly", "pete"):
        user = User.objects.create_user(name, password=PASSWORD)
        clients[name] = APIClient()
        clients[name].force_login(user)
    grant(principal="user:polly", privilege="select", on="lake.shop", by="root")
    services = gateway.gateway.services

    def is_held(user: str) -> bool:
        return any(side.is_held for side in services.in_engine.get(user, ()))

    def rows(sql: str, *, user: str = "polly", **more: Any) -> Any:
        asked = {"sql": sql, "wait_seconds": 30, **more}
        place = f"{URL}/{clients[user].post(URL, asked, format='json').json()['id']}"

        def ended() -> Any:
            told = clients[user].get(place).json()
            return told if told["state"] not in UNENDED else None

        told = wait_for(ended, "its end")
        # asked on the gateway's loop, which changes what is looked through
        wait_for(
            lambda: not gateway.do(is_held, user), "its session to be left, or closed"
        )
        if told["error"]:
            return told["error"]["sql_state"]
        return clients[user].get(f"{place}/results").json()["rows"]

    return rows


NOW = "select current_database(), current_timezone(), cast('x' as int)"
AS_OPENED = [["default", "UTC", None]]


def test_a_query_leaves_its_session_to_the_next(run: Run, engine: WarmEngine) -> None:
    assert run(NOW) == AS_OPENED
    assert run("select count(*) from orders", database="shop") == [[20]]
    assert run("select max(id) from shop.orders where id < 9") == [[8]]
    assert run(NOW) == AS_OPENED
    assert engine.opened == ["polly"]
    # the database of the one before is not that of this one
    assert run("select count(*) from orders") == "42P01"


@pytest.mark.parametrize(
    "leaves",
    [
        "set spark.sql.ansi.enabled = true",
        "set spark.sql.session.timeZone = Asia/Shanghai",
        "set time zone 'Asia/Shanghai'",
        "use shop",
        "create temporary view held as select 1 as one",
        "create temporary function held as 'java.lang.String'",
        "declare variable held int default 5",
        "cache table held as select 1 as one",
        "reset",
        "show tables in shop",
        "select raise_error('x')",
    ],
)
def test_what_may_leave_something_leaves_no_session(
    run: Run, engine: WarmEngine, leaves: str
) -> None:
    """Some of it is refused, some done, in a session that others left."""
    assert run(NOW) == AS_OPENED
    run(leaves)
    assert run(NOW) == AS_OPENED
    assert run("select * from held") == "42P01"
    assert run("select held") == "42703"


def test_a_session_is_never_anothers(run: Run, engine: WarmEngine) -> None:
    who = "select current_user()"
    assert [run(who, user=user) for user in ("polly", "pete", "polly")] == [
        [["polly"]],
        [["pete"]],
        [["polly"]],
    ]
    counted = "select count(*) from shop.orders"
    assert (run(counted), run(counted, user="pete")) == ([[20]], "42P01")
    assert engine.opened == ["polly", "pete"]


def test_rights_are_those_of_now(run: Run, engine: WarmEngine) -> None:
    """They are judged for each statement, whatever its session saw before."""
    from catalog.access.grants import grant, revoke
    from catalog.models import Grant

    counted = "select count(*) from shop.orders"
    assert run(counted) == [[20]]
    (given,) = Grant.objects.filter(principal_name="polly")
    revoke(given.pk, by="root")
    assert run(counted) == "42P01"
    grant(principal="user:polly", privilege="select", on="lake.shop", by="root")
    assert run(counted) == [[20]]
