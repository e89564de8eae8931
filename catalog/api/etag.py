"""ETag and If-Match of datasources: two people never overwrite each other blindly."""

from __future__ import annotations

import re

from rest_framework.request import Request

from catalog.models import Datasource
from core.errors import StaleState

_TAG = re.compile(r'(?:W/)?"v(\d{1,9})"')


def etag_of(row: Datasource) -> str:
    return f'"v{row.version}"'


def expected_version(request: Request) -> int | None:
    """The version in If-Match; None when there is no condition.

    A tag that is not one of ours can match nothing: `precondition_failed`.
    """
    given = request.headers.get("If-Match", "").strip()
    if given in {"", "*"}:
        return None
    found = _TAG.fullmatch(given)
    if found is None:
        raise StaleState(
            f"If-Match {given[:50]} matches no version",
            code="precondition_failed",
            hint="send the ETag of a GET as it was",
        )
    return int(found[1])
