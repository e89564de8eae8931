"""Each operation of REST says what it does, and shows it by an example that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator
from rest_framework.serializers import Serializer

ROOT = Path(__file__).resolve().parents[3]
TODO = "give the view or its method a docstring, and examples.yaml beside it an example"


@dataclass(frozen=True)
class Operation:
    id: str
    spec: dict[str, Any]

    def bodies(self) -> Iterator[dict[str, Any]]:
        """JSON of what is sent and of what comes back when all goes well."""
        parts = [self.spec.get("requestBody", {})]
        parts += [r for code, r in self.spec["responses"].items() if code[0] == "2"]
        for part in parts:
            if found := part.get("content", {}).get("application/json"):
                yield found


@cache
def document() -> dict[str, Any]:
    text = (ROOT / "docs" / "openapi.yaml").read_text()
    return dict(yaml.load(text, yaml.CSafeLoader))


@cache
def components() -> Any:
    return closed(document()["components"])


def operations() -> list[Operation]:
    return [
        Operation(spec["operationId"], spec)
        for methods in document()["paths"].values()
        for spec in methods.values()
    ]


def examples_in(body: dict[str, Any]) -> list[Any]:
    return [each["value"] for each in body.get("examples", {}).values()]


@pytest.mark.parametrize("operation", operations(), ids=lambda each: each.id)
def test_it_has_a_sentence_and_an_example_that_fits(operation: Operation) -> None:
    assert operation.spec.get("summary"), TODO
    assert operation.spec["summary"][0].isupper(), operation.spec["summary"]
    bodies = list(operation.bodies())
    # one of several replies, as 200 or 202, is example enough
    shown = [value for body in bodies for value in examples_in(body)]
    wanted = "requestBody" in operation.spec, bool(bodies)
    is_bare = not bodies  # 204, as every DELETE
    assert is_bare or len(shown) >= 1 + all(wanted), TODO
    for parameter in operation.spec.get("parameters", []):
        assert parameter["in"] != "path" or "example" in parameter, parameter
    for body in bodies:
        for value in examples_in(body):
            schema = {**closed(body["schema"]), "components": components()}
            Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize(
    ("component", "member"),
    [
        ("TableDetail", "sync"),
        ("Commit", "rows"),
        ("TableChoices", "capture"),
        ("Datasource", "test_result"),
    ],
    ids=lambda each: each,
)
def test_null_fits_where_a_member_may_be_null(component: str, member: str) -> None:
    spec = document()["components"]["schemas"][component]["properties"][member]
    Draft202012Validator({**spec, "components": components()}).validate(None)


def test_defaults_fit() -> None:
    """A strict reader of the document refuses all of it otherwise."""
    for name, component in document()["components"]["schemas"].items():
        for member, spec in component.get("properties", {}).items():
            if "default" in spec:
                schema = {**spec, "components": components()}
                found = Draft202012Validator(schema).is_valid(spec["default"])
                assert found, (name, member)


def closed(schema: Any) -> Any:
    """The schema in which no member is allowed that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if "properties" in found and isinstance(found["properties"], dict):
        found.setdefault("additionalProperties", False)
    return found


def test_what_is_sent_passes_the_serializers() -> None:
    """The document is made of them; their validators are in no document."""
    checked = 0
    generator = SchemaGenerator()
    generator._initialise_endpoints()
    for _, _, method, view in generator._get_paths_and_endpoints():
        view.schema.method, view.schema.view = method, view
        checked += sum(passes(view.schema, each) for each in sent(view.schema))
    assert checked >= 15


def sent(schema: Any) -> list[Any]:
    return [each.value for each in schema.get_examples() if each.request_only]


def passes(schema: Any, value: Any) -> bool:
    wanted = schema.get_request_serializer()
    kind = wanted if isinstance(wanted, type) else type(wanted)
    assert issubclass(kind, Serializer), kind
    serializer = kind(data=value)
    assert serializer.is_valid(), (schema.get_operation_id(), serializer.errors)
    return True
