"""What every REST view shares: caller, paging, typed bodies. No endpoint is here.

A view is three lines: who asks, which service or selector, which body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language_from_request, override
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from catalog.access.enforcement import require_admin
from catalog.access.policy import Principal
from catalog.api.authentication import principal_from
from catalog.api.serializers import MOST_ERRORS
from catalog.api.stream_limit import Place
from catalog.api.user_concurrency import take_place
from catalog.selectors.paging import DEFAULT_SIZE, LARGEST_SIZE, Page, keyset_page
from core.errors import InvalidRequest
from core.json_values import below
from core.sentences import Sentence
from core.translation import all_translated

R = TypeVar("R")
LARGEST_BODY: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
# Checking one costs up to 50 µs, and longer to say what is wrong with it.
MOST_VALUES = 100_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class ApiView(APIView):
    """Base of all REST views.

    queries  names of allowed query parameters; others are refused, so that a
             misspelt filter never silently returns everything
    is_versioned  replies have an ETag, changes honour If-Match
    """

    queries: frozenset[str] = frozenset()
    is_versioned = False
    _place: Place | None = None

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer in a place of the caller's."""
        try:
            return super().dispatch(request, *args, **kwargs)
        finally:
            if self._place:
                self._place.give_back()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self._place = take_place(principal_from(request).name)
        _require_sane(request)
        unknown = sorted(set(request.query_params) - self.queries - {"format"})
        if unknown:
            raise InvalidRequest(
                "unknown query parameter(s): %(names)s",
                names=", ".join(unknown),
                code="unknown_parameter",
                hint=_known(sorted(self.queries)),
                facts={"errors": [{"parameter": p, "detail": "?"} for p in unknown]},
            )

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        """Sentences are in the language that the request accepts; English without."""
        final = super().finalize_response(request, response, *args, **kwargs)
        if request.headers.get("Accept-Language") and isinstance(final, Response):
            language = _language_of(request)
            with override(language):
                final.data = all_translated(final.data)
            final["Content-Language"] = language
            patch_vary_headers(final, ["Accept-Language"])
        return final

    @property
    def principal(self) -> Principal:
        return principal_from(self.request)

    @property
    def account(self) -> User:
        """The caller's user row."""
        assert isinstance(self.request.user, User)
        return self.request.user


class AdminView(ApiView):
    """Every method of it is for administrators."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        require_admin(self.principal)


def _known(names: Sequence[str]) -> Sentence:
    if not names:
        return Sentence("known: none")
    return Sentence("known: %(names)s", names=", ".join(names))


def _require_sane(request: Request) -> None:
    """Refuse what no column can hold and what no body needs to be."""
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if not length.isdigit() or int(length) > LARGEST_BODY:
        raise InvalidRequest(
            "the body has %(count)s bytes",
            most=LARGEST_BODY,
            count=length,
            code="body_too_large",
            hint="at most %(most)s",
        )
    texts = [request.path, *map(str, request.query_params.values())]
    if not all(map(is_storable, texts)):
        raise InvalidRequest(
            "the address contains characters that are no text", code="invalid_text"
        )
    if request.method in _WITH_BODY and not all(map(is_storable, _texts(request))):
        raise InvalidRequest(
            "the body contains characters that are no text", code="invalid_text"
        )


def _texts(request: Request) -> Iterator[str]:
    """Every text of the body, keys too, however deep."""
    left: list[Any] = [request.data]
    for _ in range(MOST_VALUES):
        if not left:
            return
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
    if left:
        raise InvalidRequest(
            "the body has more than %(most)s values",
            most=f"{MOST_VALUES:,}",
            code="body_too_large",
            hint="send it in parts",
        )


def is_storable(text: str) -> bool:
    """No NUL and no lone surrogate: PostgreSQL stores neither."""
    return _UNSTORABLE.search(text) is None


PAGING = frozenset({"page_size", "page_token", "sort"})


def paged(
    request: Request,
    rows: QuerySet[Any],
    *,
    sorts: Mapping[str, tuple[str, ...]],
    body: Callable[[R], dict[str, object]],
    load: Callable[[list[Any]], list[R]] | None = None,
    largest: int = LARGEST_SIZE,
) -> Response:
    """One page as `{items, next_page_token}`.

    sorts: allowed values of `?sort=` to key columns, the first one is the default;
    each is also allowed with "-" before it. load: as `keyset_page` takes it.
    largest: most items of a page, whatever is asked for.
    """
    page: Page[R] = keyset_page(
        rows,
        order=_order(request.query_params.get("sort", ""), sorts),
        size=min(page_size(request), largest),
        token=request.query_params.get("page_token"),
        load=load,
    )
    return Response(
        {
            "items": [body(row) for row in page.items],
            "next_page_token": page.next_page_token,
        }
    )


def page_size(request: Request) -> int:
    text = request.query_params.get("page_size", str(DEFAULT_SIZE))
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise InvalidRequest(
            f"page_size is '{text}'",
            code="invalid_page_size",
            hint=Sentence("a number from 1 to %(most)s", most=LARGEST_SIZE),
        )
    return min(int(text), LARGEST_SIZE)


def _order(given: str, sorts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if not given:
        return next(iter(sorts.values()))
    keys = sorts.get(given.removeprefix("-"))
    if keys is None:
        raise InvalidRequest(
            f"sort is '{given}'",
            code="invalid_sort",
            hint="one of: " + ", ".join(f"{k}, -{k}" for k in sorts),
        )
    plain = tuple(key.removeprefix("-") for key in keys)
    return tuple(f"-{key}" for key in plain) if given.startswith("-") else plain


def body_of(serializer: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    """The validated request body; unknown fields are refused by name."""
    checked = serializer(data=members_of(request, serializer().fields))
    # what REST's framework says of a member is text, and in one language only
    with override(_language_of(request)):
        checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


def _language_of(request: Request) -> str:
    """English for a program that asks for none."""
    if not request.headers.get("Accept-Language"):
        return "en"
    return get_language_from_request(request)


def members_of(request: Request, known: Iterable[str] = ()) -> dict[str, Any]:
    """The members of the body as they came, none without a body. Whatever is not
    `known` is refused by name: the caller must not believe that an unread member had an
    effect."""
    body = {} if request.data is None else request.data
    if not isinstance(body, Mapping):
        raise InvalidRequest("the body must be a JSON object")
    names = list(known)
    unknown = sorted(set(map(str, body)) - set(names))
    if unknown:
        raise InvalidRequest(
            "unknown field(s): %(names)s",
            names=", ".join(unknown[:MOST_ERRORS]),
            code="unknown_field",
            hint=_known(names),
            facts={
                "errors": [
                    {"pointer": below("", name), "detail": "unknown"}
                    for name in unknown[:MOST_ERRORS]
                ]
            },
        )
    return dict(body)


def created(address: str, body: Mapping[str, object]) -> Response:
    """201 with what was made and where it is, below /api/v1."""
    return Response(body, status=201, headers={"Location": f"/api/v1/{address}"})


def truth(request: Request, name: str) -> bool | None:
    """A boolean query parameter, None when it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if text not in {"true", "false"}:
        raise InvalidRequest(
            "%(name)s is '%(value)s'",
            name=name,
            value=text,
            hint=Sentence("true or false"),
        )
    return text == "true"
