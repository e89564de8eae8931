"""Requests for many tables are planned by few at a time: of thousands it takes seconds
of the processor, which others in the web process wait for.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

from catalog.api.stream_limit import Places
from catalog.api.user_concurrency import TooManyRequests
from ingest.pipelines.requests import OnboardingRequest

# Of a pattern nobody knows how many tables it means before they are planned.
MOST_NAMES = 100
WAIT_SECONDS, LOOK_SECONDS = 10.0, 0.05
RETRY_SECONDS = 5
PLANS = Places(most=2, most_each=1)


def planning_place(
    user: str, request: OnboardingRequest
) -> AbstractContextManager[object]:
    """To be held while it is planned; waits for a while for those before it."""
    is_pattern = any("*" in name for name in request.include)
    if not is_pattern and len(request.include) <= MOST_NAMES:
        return nullcontext()
    until = time.monotonic() + WAIT_SECONDS
    while (place := PLANS.take(user)) is None:
        if time.monotonic() > until:
            raise TooManyRequests(
                "many tables are being planned for you or for others",
                hint="send the request again in some seconds",
                facts={"retry_after_seconds": RETRY_SECONDS},
            )
        time.sleep(LOOK_SECONDS)
    return place
