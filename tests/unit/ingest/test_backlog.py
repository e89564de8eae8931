"""What the driver host keeps until it is written."""

from __future__ import annotations

from typing import Any

import psycopg.errors
import pytest
from django.db import OperationalError

from ingest.driver_host.backlog import TRIES, Backlog


def refusal(cause: Exception) -> OperationalError:
    error = OperationalError("refused")
    error.__cause__ = cause
    return error


def test_a_statement_that_is_ended_each_time_holds_up_nothing_behind_it() -> None:
    backlog: Backlog[str] = Backlog()
    backlog.add("slow")
    backlog.add("quick")
    written: list[str] = []
    given_up: list[str] = []

    def write(item: str) -> None:
        if item == "slow":
            raise refusal(psycopg.errors.QueryCanceled())
        written.append(item)

    def give_up(item: str, error: Exception) -> None:
        given_up.append(item)

    for _ in range(TRIES):
        backlog.write_all(write, give_up=give_up)
    assert (written, given_up) == (["quick"], ["slow"])


def test_a_database_that_is_away_loses_nothing() -> None:
    backlog: Backlog[str] = Backlog()
    backlog.add("kept")

    def away(item: str) -> Any:
        raise refusal(psycopg.errors.AdminShutdown())

    for _ in range(TRIES + 1):
        with pytest.raises(OperationalError):
            backlog.write_all(away, give_up=pytest.fail)
    assert list(backlog) == ["kept"]
