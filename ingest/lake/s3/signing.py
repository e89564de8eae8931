"""Signature version 4 of AWS, as S3 wants it. Pure; it must not know connections."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Request:
    """What is signed. path and query: not encoded; headers: besides our own."""

    method: str
    host: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def target(self) -> str:
        """Path and query as they go over the wire."""
        query = encoded_query(self.query)
        return encoded_path(self.path) + (f"?{query}" if query else "")


def encoded_path(path: str) -> str:
    return quote(path, safe="/-_.~")


def encoded_query(query: Mapping[str, str]) -> str:
    pairs = sorted(
        (quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query.items()
    )
    return "&".join(f"{key}={value}" for key, value in pairs)


def signed_headers(
    request: Request, *, region: str, access_key: str, secret_key: str, now: datetime
) -> dict[str, str]:
    """All headers of the request, with its signature. now: in UTC."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(request.body).hexdigest()
    headers = {
        **{name.lower(): value for name, value in request.headers.items()},
        "host": request.host,
        "x-amz-content-sha256": digest,
        "x-amz-date": moment,
    }
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        [
            request.method,
            encoded_path(request.path),
            encoded_query(request.query),
            *(f"{name}:{headers[name].strip()}" for name in sorted(headers)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([_ALGORITHM, moment, scope, digest])
    signature = hmac.new(_key(secret_key, scope), text.encode(), hashlib.sha256)
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, "
        f"Signature={signature.hexdigest()}"
    )
    return headers


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
