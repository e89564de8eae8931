"""People, a token for each, and REST clients, for the tests of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.catalog.asking import Rest
from tests.small_disk import may_mount

if TYPE_CHECKING:
    from catalog.models import Database, Datasource, Table

# Models are imported where they are used: pytest reads this file before Django is up.

collect_ignore = [] if may_mount() else ["test_full_database.py"]
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _small_house(settings):
    settings.STATIC_ROOT.mkdir(exist_ok=True)


@pytest.fixture
def person(db) -> Callable[..., Rest]:
    """Make a user with a token that has just been used; his REST client."""
    return make_person


def make_person(name: str, **more: Any) -> Rest:
    from catalog.access import tokens, users

    user = users.create_user(name, PASSWORD, by="test", **more)
    made = tokens.create_token(user, name="t", expires_in_days=1, by=name)
    assert tokens.find_token(made.text)
    return Rest(made.text)


@pytest.fixture
def admin(person) -> Rest:
    return person("root", is_admin=True)


@pytest.fixture
def ann(person) -> Rest:
    return person("ann", groups=["bi"])


@pytest.fixture
def shop(db) -> Datasource:
    """A source with two databases of three tables each, one with an odd name."""
    return make_shop()


def make_shop() -> Datasource:
    from catalog.models import Database, Datasource

    source = Datasource.objects.create(
        name="shop",
        kind="postgresql",
        host="db.example",
        port=5432,
        database="shop",
        username="reader",
    )
    for name in ["public", "my.db"]:
        database = Database.objects.create(datasource=source, name=name)
        for table in ["orders", "people", "a.b c"]:
            add_table(database, table)
    return source


@pytest.fixture
def lake_orders(db) -> Table:
    from catalog.datasources import lake_database

    return add_table(lake_database("shop"), "orders", lake=True)


def add_table(database: Database, name: str, *, lake: bool = False) -> Table:
    from catalog.models import Column, Table

    more: dict[str, Any] = (
        {
            "kind": Table.LAKE,
            "path": f"/lake/{database.name}/{name}",
            "is_queryable": True,
            "buckets": 4,
            "status": "LIVE",
        }
        if lake
        else {}
    )
    table = Table.objects.create(
        database=database, name=name, source_name=name, record_key=["id"], **more
    )
    for position, (column, kind) in enumerate([("id", "bigint"), ("note", "string")]):
        Column.objects.create(
            table=table,
            position=position,
            name=column,
            source_name=column,
            source_type=kind,
            type=kind,
            nullable=column != "id",
            key=1 if column == "id" else 0,
        )
    return table
