"""`Idempotency-Key`: a repeated POST gets the first reply and changes nothing.

The key, the effect and the kept reply are one transaction: a crash loses all
three, so a repetition is then a first time. Replies are kept encrypted, because
one of them carries a token. Their sentences are kept with what they were made of: each
caller reads them in the language that it asks for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.conf import settings
from django.db import transaction
from django.utils.encoding import force_bytes
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import audit
from catalog.api.problems import CONTENT_TYPE, problem_of
from catalog.api.views import ApiView
from catalog.models import IdempotencyKey
from catalog.secrets import seal, unsealed
from core.errors import InvalidRequest
from core.sentences import origins_in, with_sentences

LIFETIME = timedelta(hours=24)
LONGEST_KEY = 200
FORGET_AT_ONCE = 500
MOST_OF_ONE = 20_000

V = TypeVar("V", bound=ApiView)
P = ParamSpec("P")
Post = Callable[Concatenate[V, Request, P], Response]


def idempotent(post: Post[V, P]) -> Post[V, P]:
    """Make a view's `post` honour `Idempotency-Key`; without one nothing changes.

    Kept for 24 h, of one user the newest MOST_OF_ONE: replies below 500, except 401 and
    429. The same key with another body is 422.
    """

    @wraps(post)
    def wrapped(
        view: V, request: Request, *args: P.args, **kwargs: P.kwargs
    ) -> Response:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            return post(view, request, *args, **kwargs)
        if len(key) > LONGEST_KEY or not key.isprintable():
            raise InvalidRequest(
                "Idempotency-Key must be 1 to 200 printable characters",
                code="invalid_idempotency_key",
            )
        with transaction.atomic():
            row, is_new = _claim(view, key, _digest(request))
            if not is_new:
                return _replay(row, _digest(request))
            response = _run(lambda: post(view, request, *args, **kwargs))
            if response.status_code >= 500 or response.status_code in {401, 429}:
                row.delete()
            else:
                _keep(row, response)
        return response

    wrapped.honours_idempotency_key = True  # type: ignore[attr-defined]
    return cast("Post[V, P]", wrapped)


def is_idempotent(handler: object) -> bool:
    """Whether this method of a view honours `Idempotency-Key`."""
    return bool(getattr(handler, "honours_idempotency_key", False))


def _claim(view: ApiView, key: str, digest: str) -> tuple[IdempotencyKey, bool]:
    """The row of this key; a concurrent twin waits here for the first to commit."""
    horizon = datetime.now(UTC) - LIFETIME
    old = IdempotencyKey.objects.filter(created_at__lt=horizon).values("pk")
    IdempotencyKey.objects.filter(pk__in=old[:FORGET_AT_ONCE]).delete()
    IdempotencyKey.objects.filter(
        user=view.account, key=key, created_at__lt=horizon
    ).delete()
    row, is_new = IdempotencyKey.objects.get_or_create(
        user=view.account, key=key, defaults={"digest": digest}
    )
    if is_new:
        _forget_beyond(view)
    return row, is_new


def _forget_beyond(view: ApiView) -> None:
    """Each costs nothing to make and may hold 100 kB: the oldest go."""
    own = IdempotencyKey.objects.filter(user=view.account).order_by("-created_at")
    beyond = own.values("pk")[MOST_OF_ONE : MOST_OF_ONE + FORGET_AT_ONCE]
    IdempotencyKey.objects.filter(pk__in=beyond).delete()


def _run(call: Callable[[], Response]) -> Response:
    """The reply, with a failed effect undone and turned into its problem."""
    try:
        with audit.keeping_denials(), transaction.atomic():
            return call()
    except Exception as error:  # noqa: BLE001  every error becomes a reply here
        body, headers = problem_of(error)
        return Response(
            body,
            status=int(str(body["status"])),
            headers=headers,
            content_type=CONTENT_TYPE,
        )


def _keep(row: IdempotencyKey, response: Response) -> None:
    sentences = origins_in(response.data, all_of_them=True)
    kept = {"body": response.data, "sentences": sentences}
    row.status = response.status_code
    row.body = {
        "sealed": seal(json.dumps(kept, default=str)),
        "type": response.content_type or "",
    }
    row.location = response.get("Location", "")
    row.save()


def _replay(row: IdempotencyKey, digest: str) -> Response:
    if not hmac.compare_digest(row.digest, digest) or row.body is None:
        raise InvalidRequest(
            "this Idempotency-Key was used with another request",
            code="idempotency_key_reused",
            hint="a new request needs a new key",
        )
    kept: dict[str, Any] = row.body
    response = Response(
        with_sentences(json.loads(unsealed(kept["sealed"])))["body"],
        status=row.status,
        content_type=kept["type"] or None,
    )
    response["Idempotency-Replayed"] = "true"
    if row.location:
        response["Location"] = row.location
    return response


def _digest(request: Request) -> str:
    """Keyed, because a body may hold a password that a plain hash would betray."""
    text = json.dumps(request.data, sort_keys=True, default=str)
    message = f"{request.method} {request.path}\n{text}".encode()
    return hmac.new(
        force_bytes(settings.SECRET_KEY), message, hashlib.sha256
    ).hexdigest()
