"""How views appear in the OpenAPI document: operation ids, parameters, problems.

Reads what the views already declare, so that the document cannot drift from them.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Literal

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from catalog.api.examples import examples_for, place_example
from catalog.api.idempotency import is_idempotent
from catalog.api.problems import CONTENT_TYPE
from catalog.api.replies import Problem

BOOLEANS = frozenset({"is_active", "is_allowed", "is_finished"})
INTEGERS = frozenset({"page_size"})
SENTENCE_END = re.compile(r"(?<=\w)[.;:](?= )")


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "catalog.api.authentication.BearerTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "slt_…"}


class SluiceSchema(AutoSchema):
    """`getTables` style ids; words, queries and examples from beside the view; problems
    everywhere."""

    def get_operation_id(self) -> str:
        name = type(self.view).__name__.removesuffix("View")
        return f"{self.method.lower()}{name}"

    def get_description(self) -> str:  # type: ignore[override]  # as spectacular does
        """The method's own words, else the view's; inherited ones are about code."""
        own = type(self.view).__dict__
        method = getattr(own.get(self.method.lower()), "__doc__", None)
        return inspect.cleandoc(method or own.get("__doc__") or "")

    def get_summary(self) -> str:
        """The first sentence, without its end."""
        text = self.get_description().partition("\n\n")[0].replace("\n", " ")
        return SENTENCE_END.split(text, maxsplit=1)[0].rstrip(".")

    def get_examples(self) -> list[Any]:
        return examples_for(type(self.view), self.get_operation_id())

    def _resolve_path_parameters(self, variables: list[str]) -> list[Any]:
        found: list[Any] = super()._resolve_path_parameters(variables)  # type: ignore[no-untyped-call]
        for each in found:
            each["example"] = place_example(each["name"], each["schema"])
        return found

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/").partition("/")[0].partition(":")[0]]

    def get_override_parameters(self) -> list[Any]:
        queries: frozenset[str] = getattr(self.view, "queries", frozenset())
        shown = [
            OpenApiParameter(name, type=_type_of(name))
            for name in sorted(queries)
            if self.method == "GET"
        ]
        handler = getattr(self.view, self.method.lower(), None)
        if is_idempotent(handler):
            shown.append(
                OpenApiParameter("Idempotency-Key", location=OpenApiParameter.HEADER)
            )
        if getattr(self.view, "is_versioned", False):
            name = "If-None-Match" if self.method == "GET" else "If-Match"
            shown.append(OpenApiParameter(name, location=OpenApiParameter.HEADER))
        return shown

    def _get_response_bodies(
        self, direction: Literal["request", "response"] = "response"
    ) -> dict[str, Any]:
        # The public hook is replaced wherever a view names its own replies.
        given: dict[str, Any] = super()._get_response_bodies(direction)
        problem = self._get_response_for_code(  # type: ignore[no-untyped-call]
            OpenApiResponse(Problem, description="problem details, RFC 9457"),
            "default",
            media_types=[CONTENT_TYPE],
            direction=direction,
        )
        return {**given, "default": problem}


def let_anything_be_null(result: Any, **_: Any) -> Any:
    """Of anything, spectacular writes `one of: anything, null`, which refuses null: it
    is both."""
    if isinstance(result, list):
        return [let_anything_be_null(each) for each in result]
    if not isinstance(result, dict):
        return result
    kept = {name: let_anything_be_null(each) for name, each in result.items()}
    if kept.get("oneOf") == [{}, {"type": "null"}]:
        del kept["oneOf"]
    return kept


def _type_of(name: str) -> type:
    if name in BOOLEANS:
        return bool
    return int if name in INTEGERS else str
