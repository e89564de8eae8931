"""Whether this process can serve: database, migrations, broker, lake. Cheap."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from catalog.extensions import registered
from core.object_store import is_object_uri
from core.sentences import Sentence

BROKER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """`problem` "" = all right; texts carry no address with a password."""

    name: str
    problem: str = ""
    hint: str = ""


def readiness() -> list[Check]:
    """All checks, each with its own outcome; never raises."""
    database = _database()
    checks = [database]
    if not database.problem:
        checks.append(_migrations())
    return [*checks, _broker(), _lake()]


def _database() -> Check:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return Check(
            "database",
            "the metadata database cannot be reached",
            "is it running, and is SLUICE_DATABASE_URL right?",
        )
    return Check("database")


def _migrations() -> Check:
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return Check("migrations", "the state of migrations cannot be read")
    if plan:
        return Check(
            "migrations",
            Sentence("%(count)s migrations are not applied", count=len(plan)),
            "run: python manage.py migrate",
        )
    return Check("migrations")


def _broker() -> Check:
    url = settings.SLUICE_REDIS_URL.replace("redis+socket://", "unix://", 1)
    try:
        client = redis.Redis.from_url(
            url,
            socket_connect_timeout=BROKER_SECONDS,
            socket_timeout=BROKER_SECONDS,
        )
        try:
            client.ping()
        finally:
            client.close()
    except (redis.RedisError, OSError, ValueError):
        return Check(
            "broker",
            "Redis cannot be reached; jobs wait, nothing is lost",
            "is it running, and is SLUICE_REDIS_URL right?",
        )
    return Check("broker")


def _lake() -> Check:
    if is_object_uri(settings.SLUICE_LAKE_URI):
        problem = registered.storage()
        return Check("lake", problem, problem and "run: python manage.py doctor")
    root = Path(settings.SLUICE_LAKE_URI)
    there = root if root.exists() else root.parent
    if os.access(there, os.W_OK):
        return Check("lake")
    return Check("lake", "the lake's root cannot be written", "see SLUICE_LAKE_URI")
