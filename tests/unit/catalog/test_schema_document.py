"""The OpenAPI document, asked for by several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from catalog.api.instance import SchemaView


def made(_: int) -> Any:
    return SchemaView.generator_class().get_schema(public=True)


def test_those_who_ask_at_once_get_the_same_whole_document() -> None:
    with ThreadPoolExecutor(4) as callers:
        first, *others = callers.map(made, range(6))
    assert first["paths"]
    assert all(other is first for other in others), "it is made once"
