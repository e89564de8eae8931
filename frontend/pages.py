"""What all pages share: who asks, errors as pages, pages of long lists.

Knows HTTP and templates. Holds no business rule: services and selectors decide,
and their errors carry the words that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol
from urllib.parse import quote

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods
from django_htmx.middleware import HtmxDetails

from catalog.access.policy import Principal
from catalog.access.principals import principal_of
from catalog.api.user_concurrency import take_place
from catalog.api.views import is_storable
from catalog.selectors.paging import Window
from core.context import name_actor
from core.errors import (
    AccessDenied,
    InvalidRequest,
    NotFound,
    SluiceError,
    StaleState,
    TransientError,
)
from core.sentences import Sentence
from core.translation import translated

P = ParamSpec("P")
PAGE_SIZE = 50
MOST_PAGES = 200
NOT_CONFIRMED = "the name does not match: nothing was done"


class Sliceable(Protocol):
    """A list that reads only what is cut out of it."""

    def __getitem__(self, part: slice, /) -> Iterable[Any]: ...


class Keyed(Protocol):
    """A list that goes on from a key."""

    def window(self, *, size: int, after: str, before: str) -> Window[Any]: ...


class PageRequest(HttpRequest):
    """A request of a logged-in user."""

    user: User
    principal: Principal
    htmx: HtmxDetails


View = Callable[Concatenate[PageRequest, P], HttpResponse]


def page(
    *methods: str, for_admins: bool = False
) -> Callable[[View[P]], Callable[Concatenate[HttpRequest, P], HttpResponse]]:
    """A view for logged-in users whose SluiceErrors become pages. It answers GET and
    HEAD, or these methods; one for administrators exists for nobody else."""
    answering = require_http_methods(list(methods or ("GET", "HEAD")))

    def made(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        answer = answering(view)

        @wraps(view)
        def wrapped(
            request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponse:
            if not request.user.is_authenticated:
                return _to_login(request)
            principal = principal_of(request.user)
            request.principal = principal  # type: ignore[attr-defined]
            name_actor(request.user.get_username())
            try:
                with take_place(request.user.get_username()):
                    _require_text(request)
                    if for_admins and not principal.is_admin:
                        raise NotFound(Sentence("there is no such page"))
                    return answer(request, *args, **kwargs)  # type: ignore[arg-type]
            except SluiceError as error:
                return error_page(request, error)

        return wrapped

    return made


def _require_text(request: HttpRequest) -> None:
    """Refuse what no column can hold, as REST does."""
    lists = [*request.GET.lists(), *request.POST.lists()]
    texts = [request.path, *(text for _, values in lists for text in values)]
    if not all(map(is_storable, texts)):
        raise InvalidRequest(
            Sentence("the request contains characters that are no text"),
            code="invalid_text",
        )


def error_page(request: HttpRequest, error: SluiceError) -> HttpResponse:
    """The error as a whole page, or as a card where htmx asked for a part."""
    is_part = request.headers.get("HX-Request") == "true"
    template = "parts/error.html" if is_part else "error.html"
    return render(
        request,
        f"frontend/{template}",
        {"error": error, "title": _title_of(error)},
        status=200 if is_part else status_of(error),
    )


def attempt(
    request: PageRequest, done: str, action: Callable[[], object]
) -> SluiceError | None:
    """Run an action; say `done`, or what failed, on the next page."""
    error = refusal_of(request, done, action)
    if error is not None:
        messages.error(request, translated(error.as_sentence))
    return error


def refusal_of(
    request: PageRequest, done: str, action: Callable[[], object]
) -> SluiceError | None:
    """Run an action; say `done` on the next page, or return what this one shows."""
    try:
        action()
    except SluiceError as refused:
        return refused
    messages.success(request, done)
    return None


def is_confirmed(request: HttpRequest, name: str) -> bool:
    """Whether the name was typed of what a form is about to destroy."""
    return request.POST.get("confirm", "").strip() == name


def back(request: HttpRequest, view: str, *args: object) -> HttpResponse:
    """Back to where the user came from (`next`, within this site), else to `view`."""
    wanted = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return HttpResponseRedirect(wanted)
    return redirect(f"frontend:{view}", *args)


@dataclass(frozen=True, slots=True)
class NumberedPage:
    """One page of a list of unknown length. Numbers start at 1."""

    items: Sequence[Any]
    number: int
    has_next: bool
    size: int = PAGE_SIZE

    @property
    def first(self) -> int:
        return (self.number - 1) * self.size + 1

    @property
    def last(self) -> int:
        return self.first + len(self.items) - 1


def ticked(data: QueryDict, name: str) -> list[int]:
    """Ids of the rows that a form has ticked; what can be none is left out."""
    given = data.getlist(name)
    return [int(t) for t in given if t.isascii() and t.isdigit() and len(t) < 19]


def page_number(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    return max(1, int(text)) if text.isascii() and text.isdigit() else 1


def keyed_page(request: HttpRequest, rows: Keyed) -> Window[Any]:
    """The page after `?after=` or before `?before=`, as cheap wherever it is."""
    get = request.GET.get
    return rows.window(size=PAGE_SIZE, after=get("after", ""), before=get("before", ""))


def numbered_page(
    request: HttpRequest,
    rows: Sliceable,
    *,
    size: int = PAGE_SIZE,
) -> NumberedPage:
    """The page the request asks for; reads one row more than it shows.

    Beyond 200 pages a filter is the way.
    """
    number = min(page_number(request), MOST_PAGES)
    start = (number - 1) * size
    found = list(rows[start : start + size + 1])
    has_next = len(found) > size and number < MOST_PAGES
    return NumberedPage(found[:size], number, has_next=has_next, size=size)


def _to_login(request: HttpRequest) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(status=401)
    return HttpResponseRedirect(
        f"{settings.LOGIN_URL}?next={quote(request.get_full_path())}"
    )


def status_of(error: SluiceError) -> int:
    match error:
        case NotFound():
            return 404
        case AccessDenied():
            return 403
        case InvalidRequest():
            return 400
        case TransientError():
            return 503
    return 409


def _title_of(error: SluiceError) -> str:
    match error:
        case NotFound():
            return gettext("Page not found")
        case AccessDenied():
            return gettext("Not allowed")
        case TransientError():
            return gettext("Temporarily unreachable")
        case InvalidRequest() | StaleState():
            return gettext("Not possible now")
    return gettext("Something went wrong")
