"""The watch over rights and logins goes on, whatever one look comes to."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import TransientError
from gateway.process import _survived


@pytest.mark.parametrize("error", [TransientError("away"), ValueError("unforeseen")])
def test_a_look_that_fails_is_survived(error, caplog):
    async def look() -> None:
        raise error

    asyncio.run(_survived(look()))
    assert ("is tried again" in caplog.text) is isinstance(error, ValueError)


def test_the_end_of_the_gateway_is_no_failure():
    async def end() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_survived(end()))
