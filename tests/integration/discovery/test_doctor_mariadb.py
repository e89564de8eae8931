"""`manage.py doctor` tries sources of every kind as their connection test does, and
whether drivers of their own could start."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from config.supervisor import doctor

pytestmark = pytest.mark.django_db


def found(name: str) -> doctor.Finding:
    return next(one for one in doctor.sources() if one.what == f"source {name}")


def test_sources_of_every_kind_are_tried(source: Any, maria: Any) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    source.grant_all()
    maria.run("CREATE TABLE t (id int PRIMARY KEY)")
    rows = {"PostgreSQL": source.datasource, "MariaDB": maria.datasource}
    for title, row in rows.items():
        one = found(row.name)
        assert (one.is_ok, title in one.text) == (True, True), one
        row.port = 1
        row.save()
        one = found(row.name)
        assert (one.is_ok, bool(one.advice)) == (False, True), one


def test_own_drivers_want_a_lock_that_answers_and_memory(settings: Any) -> None:
    settings.SLUICE_LAKE_LOCK = ""
    assert doctor.own_drivers() == []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings.SLUICE_LAKE_LOCK = f"127.0.0.1:1,127.0.0.1:{port}/sluice"
        settings.SLUICE_OWN_DRIVER_MEMORY = "512m"
        assert [one.is_ok for one in doctor.own_drivers()] == [True, True]
        settings.SLUICE_OWN_DRIVER_MEMORY = "999999g"
        assert [one.is_ok for one in doctor.own_drivers()] == [True, False]
    lock = doctor.own_drivers()[0]
    assert (lock.is_ok, "does not answer" in lock.text) == (False, True)
