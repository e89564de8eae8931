"""The gateway under siege, and who may come in there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyhive import hive

from tests.product import Product

PASSWORD = "a siege of some Minutes"


@dataclass(frozen=True)
class Target:
    """strangers: users without any grant; friend: one who may read the demo's tables."""

    host: str
    port: int
    friend: str
    strangers: Sequence[str]

    def connect(self, user: str, password: str = PASSWORD, **options: Any) -> Any:
        return hive.connect(
            host=self.host,
            port=self.port,
            username=user,
            password=password,
            auth="CUSTOM",
            **options,
        )


def target_at(product: Product, *, strangers: int = 4) -> Target:
    """With users of its own at the product; those of an earlier siege are used again."""
    names = [f"besieger{n}" for n in range(strangers)]
    for name in (*names, "defender"):
        body = {"name": name, "password": PASSWORD}
        made = product.api.call("POST", "/users", body)
        assert made.status in {201, 400, 409}, (made.status, made.body)
    grant = {"principal": "user:defender", "privilege": "select", "on": "lake.demo"}
    product.api.call("POST", "/grants", grant)
    gateway = product.connection["gateway"]
    return Target(gateway["host"], gateway["port"], "defender", names)
