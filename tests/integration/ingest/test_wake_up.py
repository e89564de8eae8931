"""The driver host is woken by what is queued, as of its commit, and by nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from ingest import hosting
from ingest.jobs import queue
from tests.waiting import LIMIT_SECONDS


class Wakes:
    """What a listener has called."""

    def __init__(self) -> None:
        self._wakes = threading.Semaphore(0)

    def __call__(self) -> None:
        self._wakes.release()

    def is_woken(self) -> bool:
        return self._wakes.acquire(timeout=LIMIT_SECONDS)

    def was_woken_again(self) -> bool:
        return self._wakes.acquire(blocking=False)


@pytest.fixture
def wakes(transactional_db: Any) -> Iterator[Wakes]:
    """Of a listener that is connected."""
    found, stop = Wakes(), threading.Event()
    listener = threading.Thread(
        target=hosting.listen, args=(queue.CHANNEL, found, stop)
    )
    listener.start()
    assert found.is_woken(), "once at its beginning"
    yield found
    stop.set()
    listener.join()


@pytest.mark.django_db(transaction=True)
def test_the_host_is_woken_as_of_the_commit(wakes: Wakes) -> None:
    with transaction.atomic():
        queue.wake_host()
        transaction.set_rollback(True)
    with transaction.atomic():
        queue.put([])
        queue.wake_host()
    assert wakes.is_woken()
    assert not wakes.was_woken_again(), "what was rolled back wakes nobody"


@pytest.mark.django_db(transaction=True)
def test_a_listener_sleeps_until_something_comes(
    wakes: Wakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg wakes ten times in each second that it waits."""
    waited: list[float] = []
    read = psycopg.Connection.notifies

    def noted(link: Any, *, timeout: float, **more: Any) -> Any:
        waited.append(timeout)
        return read(link, timeout=timeout, **more)

    monkeypatch.setattr(psycopg.Connection, "notifies", noted)
    for _ in range(3):
        queue.wake_host()
        assert wakes.is_woken()
    assert {*waited} == {0}


@pytest.mark.django_db(transaction=True)
def test_a_listener_whose_connection_ended_comes_back(
    wakes: Wakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "AGAIN_SECONDS", 0.0)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE 'LISTEN%%' AND datname = current_database()"
        )
    assert wakes.is_woken(), "it looks at what it may have missed"


def test_a_wake_makes_the_host_look_at_once(world: Any) -> None:
    world.onboard("orders")
    world.until_live("orders")
    host = world.host
    looks: list[bool] = []
    host._look = lambda: looks.append(True)
    host.clock = lambda: host._looked  # no time passes
    host.step(0)
    assert looks == []
    host.wake()
    host.step(0)
    assert looks == [True]
