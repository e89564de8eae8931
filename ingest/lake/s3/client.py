"""A small client of S3: a few verbs, each one request, retried while that is safe.

One connection per thread, kept open. It must not know what objects mean.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote_plus, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from core.errors import TerminalError, TransientError
from core.object_store import StoreAccess
from core.retries import Backoff
from core.sentences import Sentence
from ingest.lake.s3.signing import Request, signed_headers

_SECONDS = 30.0
_TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
_PAGE = 1_000
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_NAMESPACE = re.compile(rb'\sxmlns="[^"]*"')
_CODE = re.compile(rb"<Code>([^<]{1,100})</Code>")


@dataclass(frozen=True, slots=True)
class Reply:
    """was_repeated: an earlier try may have had its effect, unheard."""

    status: int
    etag: str
    body: bytes
    was_repeated: bool = False

    @property
    def code(self) -> str:
        """The store's own name of an error."""
        found = _CODE.search(self.body)
        return found[1].decode("ascii", "replace") if found else f"HTTP {self.status}"


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a listing. folders: common prefixes, when asked for."""

    objects: tuple[tuple[str, int], ...]
    folders: tuple[str, ...]
    next_token: str


class StoreClient:
    """Thread-safe. Raises TransientError when the store cannot be reached."""

    def __init__(
        self, access: StoreAccess, *, tries: int = _TRIES, seconds: float = _SECONDS
    ) -> None:
        self._access = access
        self._tries = tries
        self._seconds = seconds
        self._address = urlsplit(access.address)
        self._local = threading.local()
        self._tls = (
            ssl.create_default_context() if self._address.scheme == "https" else None
        )
        # buckets whose conditional writes were seen to work, by this process
        self.proven: set[str] = set()

    def get(
        self, bucket: str, key: str, headers: Mapping[str, str] | None = None
    ) -> Reply | None:
        """The whole object, or its `range`; None when there is none."""
        reply = self._ask("GET", bucket, key, headers=headers)
        if reply.status == 404 and reply.code != "NoSuchBucket":
            return None
        if reply.status == 416:  # nothing of it lies in the range
            return Reply(reply.status, reply.etag, b"")
        return _require(reply, f"{bucket}/{key}")

    def has(self, bucket: str, key: str) -> bool:
        reply = self._ask("HEAD", bucket, key)
        return reply.status != 404 and bool(_require(reply, f"{bucket}/{key}"))

    def put(
        self, bucket: str, key: str, body: bytes, condition: Mapping[str, str]
    ) -> Reply | None:
        """None when the condition (if-match, if-none-match) does not hold."""
        reply = self._ask("PUT", bucket, key, headers=condition, body=body)
        is_gone = reply.status == 404 and "if-match" in condition
        if reply.status == 412 or (is_gone and reply.code != "NoSuchBucket"):
            return None if not reply.was_repeated else self._own(bucket, key, body)
        return _require(reply, f"{bucket}/{key}")

    def delete(self, bucket: str, key: str) -> None:
        reply = self._ask("DELETE", bucket, key)
        if reply.status != 404 or reply.code == "NoSuchBucket":
            _require(reply, f"{bucket}/{key}")

    def delete_many(self, bucket: str, keys: Sequence[str]) -> None:
        """At most 1,000 keys in one request."""
        objects = "".join(f"<Object><Key>{escape(k)}</Key></Object>" for k in keys)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        headers = {"content-md5": base64.b64encode(digest).decode()}
        reply = self._ask(
            "POST", bucket, "", query={"delete": ""}, headers=headers, body=body
        )
        _require(reply, bucket)
        if b"<Error>" in reply.body:
            raise _refused(reply, bucket)

    def pages(
        self, bucket: str, prefix: str, *, delimiter: str = "", after: str = ""
    ) -> Iterator[Listed]:
        """after: a key behind which the listing begins."""
        token = ""
        while True:
            page = self.page(
                bucket, prefix, delimiter=delimiter, token=token, after=after
            )
            yield page
            token = page.next_token
            if not token:
                return

    def page(
        self,
        bucket: str,
        prefix: str,
        *,
        delimiter: str = "",
        token: str = "",
        after: str = "",
        size: int = _PAGE,
    ) -> Listed:
        query = {
            "list-type": "2",
            "prefix": prefix,
            "max-keys": str(size),
            # names may hold what XML cannot
            "encoding-type": "url",
        }
        if delimiter:
            query["delimiter"] = delimiter
        if token:
            query["continuation-token"] = token
        elif after:
            query["start-after"] = after
        reply = _require(self._ask("GET", bucket, "", query=query), bucket)
        return _listed(reply.body)

    def _own(self, bucket: str, key: str, body: bytes) -> Reply | None:
        """What our first, unheard try may have written: equal means it is ours."""
        found = self.get(bucket, key)
        return found if found is not None and found.body == body else None

    def _ask(
        self,
        method: str,
        bucket: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        host, path = self._place(bucket, key)
        request = Request(method, host, path, query or {}, headers or {}, body)
        failure = ""
        for number in range(self._tries):
            if number:
                time.sleep(Backoff(_FIRST_WAIT, _LONGEST_WAIT).after(number + 1))
            try:
                reply = self._send(request)
            except (OSError, http.client.HTTPException) as error:
                self._close()
                failure = str(error) or type(error).__name__
                continue
            is_conflict = reply.status == 409 and reply.code.endswith("Conflict")
            if reply.status not in _BUSY and not is_conflict:
                return Reply(reply.status, reply.etag, reply.body, number > 0)
            failure = reply.code
        raise TransientError(
            "the lake's object store does not answer at %(address)s: %(why)s",
            address=self._access.address,
            why=failure,
            code="storage_failed",
            hint="it is tried again; `manage.py doctor` tells more",
        )

    def _place(self, bucket: str, key: str) -> tuple[str, str]:
        host = self._address.netloc
        base = self._address.path.rstrip("/")
        if self._access.path_style:
            return host, f"{base}/{bucket}/{key}" if key else f"{base}/{bucket}"
        return f"{bucket}.{host}", f"{base}/{key}"

    def _send(self, request: Request) -> Reply:
        headers = signed_headers(
            request,
            region=self._access.region,
            access_key=self._access.access_key,
            secret_key=self._access.secret_key,
            now=datetime.now(UTC),
        )
        connection = self._connection(request.host)
        connection.request(
            request.method, request.target, body=request.body, headers=headers
        )
        answer = connection.getresponse()
        body = answer.read()
        return Reply(answer.status, answer.headers.get("ETag", ""), body)

    def _connection(self, host: str) -> http.client.HTTPConnection:
        """This thread's own; a child after a fork gets a new one."""
        kept = getattr(self._local, "kept", None)
        if kept is not None and kept[:2] == (os.getpid(), host):
            connection: http.client.HTTPConnection = kept[2]
            return connection
        connection = (
            http.client.HTTPConnection(host, timeout=self._seconds)
            if self._tls is None
            else http.client.HTTPSConnection(
                host, timeout=self._seconds, context=self._tls
            )
        )
        self._local.kept = (os.getpid(), host, connection)
        return connection

    def _close(self) -> None:
        kept = getattr(self._local, "kept", None)
        self._local.kept = None
        if kept is not None:
            kept[2].close()


def _require(reply: Reply, where: str) -> Reply:
    if 200 <= reply.status < 300:
        return reply
    raise _refused(reply, where)


def _refused(reply: Reply, where: str) -> TransientError | TerminalError:
    if reply.code == "NoSuchBucket":
        return TerminalError(
            "the lake's bucket is missing: %(bucket)s",
            bucket=where.partition("/")[0],
            code="lake_bucket_missing",
            hint="create it, or correct SLUICE_LAKE_URI; Sluice makes no buckets",
        )
    if reply.status in {400, 401, 403, 405, 501}:
        return TerminalError(
            Sentence(
                "the lake's object store refuses %(where)s: %(code)s",
                where=where,
                code=reply.code,
            ),
            code="lake_not_writable",
            hint="check SLUICE_S3_ACCESS_KEY, its rights on the bucket, the region "
            "and this machine's clock; then retry",
        )
    return TransientError(
        Sentence(
            "the lake's object store failed at %(where)s: %(code)s",
            where=where,
            code=reply.code,
        ),
        code="storage_failed",
    )


def _listed(body: bytes) -> Listed:
    # the operator's own store said this, and expat bounds its expansions
    root = ET.fromstring(_NAMESPACE.sub(b"", body, count=1))
    return Listed(
        tuple(
            (unquote_plus(e.findtext("Key", "")), int(e.findtext("Size", "0")))
            for e in root.iter("Contents")
        ),
        tuple(
            unquote_plus(e.findtext("Prefix", "")) for e in root.iter("CommonPrefixes")
        ),
        root.findtext("NextContinuationToken", ""),
    )
