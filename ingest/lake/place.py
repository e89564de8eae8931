"""From an address of the lake to a place in its storage.

A process names its object store once, when it starts. It must not know settings.
"""

from __future__ import annotations

from core.errors import InvalidRequest
from core.object_store import StoreAccess, is_object_uri, split_uri
from ingest.lake.files import LocalPlace, local_path
from ingest.lake.port import Place
from ingest.lake.s3.client import StoreClient
from ingest.lake.s3.objects import ObjectPlace

_CLIENTS: list[StoreClient] = []


def use_object_store(access: StoreAccess | None) -> None:
    """From now on this process reaches `s3://` through it; None forgets it."""
    _CLIENTS[:] = [] if access is None else [StoreClient(access)]


def has_object_store() -> bool:
    return bool(_CLIENTS)


def place_at(uri: str) -> Place:
    """The place behind an absolute path, `file:///…` or `s3://bucket/…`.

    InvalidRequest for other addresses, and for s3 when no store was named.
    """
    if not is_object_uri(uri):
        return LocalPlace(local_path(uri))
    if not _CLIENTS:
        raise InvalidRequest(
            "'%(uri)s' is on an object store, and none is configured",
            uri=uri,
            code="unsupported_lake",
            hint="set SLUICE_S3_ACCESS_KEY and SLUICE_S3_SECRET_KEY",
        )
    bucket, key = split_uri(uri)
    return ObjectPlace(_CLIENTS[0], bucket, key)
