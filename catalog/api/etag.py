"""ETag, If-Match and If-None-Match: two people never overwrite each other blindly.

Datasources count their versions; what has no version is tagged by its content.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Datasource
from core.errors import StaleState

_TAG = re.compile(r'(?:W/)?"v(\d{1,9})"')


def etag_of(row: Datasource) -> str:
    return f'"v{row.version}"'


def expected_version(request: Request) -> int | None:
    """The version in If-Match; None when there is no condition.

    A tag that is not one of ours can match nothing: `precondition_failed`.
    """
    given = _given(request)
    if not given:
        return None
    found = _TAG.fullmatch(given)
    if found is None:
        raise _failed(given)
    return int(found[1])


def content_tag(content: Mapping[str, object]) -> str:
    """The tag of what a change would overwrite, and of nothing else."""
    text = json.dumps(content, sort_keys=True, default=str)
    return f'"c{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def require_match(request: Request, tag: str) -> None:
    """StaleState when If-Match names another tag; hold the row's lock until the
    change."""
    given = _given(request)
    tags = [each.strip().removeprefix("W/") for each in given.split(",")]
    if given and tag not in tags:
        raise _failed(given)


def tagged(request: Request, body: Mapping[str, object], tag: str) -> Response:
    """The body with its tag, or 304 when the caller of a GET has it already."""
    known = request.headers.get("If-None-Match", "")
    if request.method == "GET" and tag in [each.strip() for each in known.split(",")]:
        return Response(status=304, headers={"ETag": tag})
    return Response(body, headers={"ETag": tag})


def _given(request: Request) -> str:
    given = request.headers.get("If-Match", "").strip()
    return "" if given == "*" else given


def _failed(given: str) -> StaleState:
    return StaleState(
        "If-Match %(etag)s does not match what is there now",
        etag=given[:50],
        code="precondition_failed",
        hint="read it again, then repeat the change with its new ETag",
    )
