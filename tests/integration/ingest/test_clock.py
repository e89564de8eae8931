"""A driver asks for the database's clock as it asks for secrets."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.db import connection

from ingest.contract.job import CLOCK
from ingest.hosting import SecretBroker


@pytest.mark.django_db
def test_a_driver_is_told_the_databases_clock() -> None:
    def now() -> datetime:
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            row = cursor.fetchone()
        assert row is not None
        found: datetime = row[0]
        return found

    desk, before = SecretBroker(), now()
    desk.ask(CLOCK, "a driver")
    [(answer, origin)] = desk.answered()
    assert (answer.ref, answer.error, origin) == (CLOCK, None, "a driver")
    assert before <= datetime.fromisoformat(answer.value) <= now()
