"""One example of each operation, for the OpenAPI document and the page made of it.

`examples.yaml` beside the views of a package has them by operation id: `request` is
what is sent, `reply` what comes back. A test holds that each operation has its own and
that it fits; another one sends them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from drf_spectacular.utils import OpenApiExample

UUID = "3f1f5d0c-58a1-4c7e-9b55-0d6c1f0f2a11"
PLACES: dict[str, object] = {
    "ds": "shop",
    "db": "public",
    "table": "orders",
    "table_id": "42",
    "job_id": UUID,
    "onboarding_id": UUID,
    "name": "ann",
    "target": "ops",
}


@cache
def _examples(package: str) -> dict[str, dict[str, Any]]:
    found = files(package).joinpath("examples.yaml")
    return dict(yaml.safe_load(found.read_text())) if found.is_file() else {}


def examples_for(view: type, operation: str) -> list[OpenApiExample]:
    """What is sent and what comes back; of a success, not of a problem."""
    package = view.__module__.rpartition(".")[0]
    found = _examples(package).get(operation, {})
    examples = []
    if "request" in found:
        examples.append(
            OpenApiExample("request", value=found["request"], request_only=True)
        )
    if "reply" in found:
        status = str(found.get("status", 200))
        examples.append(
            OpenApiExample(
                "reply",
                value=found["reply"],
                response_only=True,
                status_codes=[status],
                media_type="application/json",
            )
        )
    return examples


def place_example(name: str, schema: dict[str, Any]) -> object:
    """The example of a path parameter; what is named `id` has two kinds of ids."""
    if name == "id":
        return UUID if schema.get("format") == "uuid" else "42"
    return PLACES[name]
