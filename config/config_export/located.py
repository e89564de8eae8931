"""Errors of services, told with the place in the document that caused them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DataError, IntegrityError

from config.config_export.document import Item
from core.errors import InvalidRequest, SluiceError

# A document names the variable that holds it.
_OF_ENVIRONMENT = frozenset({"/password", "/secret", "/url"})


@contextmanager
def located(item: Item) -> Iterator[None]:
    """Errors inside are about `item`: its pointer stands before theirs."""

    def place(pointer: str) -> str:
        return f"{item.at}{pointer}{'_env' if pointer in _OF_ENVIRONMENT else ''}"

    with placed(f"{item.kind} {item.name}", place):
        yield


@contextmanager
def placed(what: str, place: Callable[[str], str]) -> Iterator[None]:
    """Errors inside get their pointers from `place` (of the service's pointer)."""
    try:
        yield
    except SluiceError as error:
        raise _located_error(error, what, place) from error
    except (DataError, IntegrityError) as error:
        # too long, or there already; the lines below the first quote values
        refused = InvalidRequest(str(error).partition("\n")[0], code="refused")
        raise _located_error(refused, what, place) from error


def _located_error(
    error: SluiceError, what: str, place: Callable[[str], str]
) -> InvalidRequest:
    given: Any = error.facts.get("errors") or [{"pointer": "", "detail": ""}]
    errors = [
        {
            "pointer": place(str(each["pointer"])),
            "detail": str(each["detail"]) or error.message,
        }
        for each in given
    ]
    return InvalidRequest(
        f"{what}: {error.message}",
        code=error.code,
        hint=error.hint,
        facts={"errors": errors},
    )
