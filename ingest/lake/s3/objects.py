"""Places on an object store: each change is one PUT, conditional where it matters.

It must not know what the objects mean.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import TerminalError, TransientError
from core.object_store import SCHEME
from ingest.lake.port import Change, StoredFile, folder_order
from ingest.lake.s3.client import StoreClient

_ABSENT = {"if-none-match": "*"}
# Each loser of a race reads again; races of a table's fence have two or three sides.
_SYNCS = 50


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """See `Place`. A folder is a prefix of keys."""

    client: StoreClient
    bucket: str
    key: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}" if self.key else SCHEME + self.bucket

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> ObjectPlace:
        key = f"{self.key}/{name}" if self.key else name
        return ObjectPlace(self.client, self.bucket, key)

    def read(self) -> bytes | None:
        reply = self.client.get(self.bucket, self.key)
        return None if reply is None else reply.body

    def read_part(self, start: int, size: int) -> bytes | None:
        if not size:
            return b"" if self.client.has(self.bucket, self.key) else None
        wanted = f"bytes={start}" if start < 0 else f"bytes={start}-{start + size - 1}"
        reply = self.client.get(self.bucket, self.key, {"range": wanted})
        return None if reply is None else reply.body[:size]

    def replace(self, text: str) -> None:
        self.client.put(self.bucket, self.key, text.encode(), {})

    def create(self, content: str | bytes) -> bool:
        require_conditions(self)
        body = content.encode() if isinstance(content, str) else content
        made = self.client.put(self.bucket, self.key, body, _ABSENT)
        return made is not None

    def update(self, change: Change) -> None:
        require_conditions(self)
        for _ in range(_SYNCS):
            found = self.client.get(self.bucket, self.key)
            wanted = change(None if found is None else found.body.decode())
            if wanted is None:
                return
            condition = _ABSENT if found is None else {"if-match": found.etag}
            if self.client.put(self.bucket, self.key, wanted.encode(), condition):
                return
        raise TransientError(
            "%(name)s changes too often to be written",
            name=self.name,
            code="storage_busy",
        )

    def names(self) -> list[str]:
        start = len(self._below)
        found: list[str] = []
        for page in self.client.pages(self.bucket, self._below, delimiter="/"):
            found += [key[start:] for key, _ in page.objects if len(key) > start]
            found += [folder[start:].rstrip("/") for folder in page.folders]
        return found

    def files(self, *, leave_out: str = "", start: str = "") -> Iterator[StoredFile]:
        after = self._below + folder_order(start) if start else ""
        for page in self.client.pages(self.bucket, self._below, after=after):
            for key, size in page.objects:
                path = key[len(self._below) :]
                is_left_out = leave_out and path.startswith(f"{leave_out}/")
                # Hadoop's markers of empty folders end like folders
                if not (is_left_out or key.endswith("/")):
                    yield StoredFile(path, size)

    def exists(self) -> bool:
        is_folder = next(self.files(), None) is not None
        return is_folder or self.client.has(self.bucket, self.key)

    def delete(self) -> None:
        self.client.delete(self.bucket, self.key)

    def delete_all(self) -> None:
        while not self.delete_page(60.0)[1]:
            continue
        if self.key:
            self.delete()

    def delete_page(self, seconds: float) -> tuple[int, bool]:
        until = time.monotonic() + seconds
        deleted = 0
        for page in self.client.pages(self.bucket, self._below):
            keys = [key for key, _ in page.objects]
            if keys:
                self.client.delete_many(self.bucket, keys)
                deleted += len(keys)
            if page.next_token and time.monotonic() > until:
                return deleted, False
        return deleted, True

    def free_bytes(self) -> int | None:
        return None

    @property
    def _below(self) -> str:
        return f"{self.key}/" if self.key else ""


def require_conditions(place: ObjectPlace) -> None:
    """TerminalError unless the store keeps conditional writes; asked once by each
    process and bucket. A store that ignores a condition would let two writers in."""
    client, bucket = place.client, place.bucket
    if bucket in client.proven:
        return
    root = place.key.partition("/_sluice/")[0] if "/_sluice/" in place.key else ""
    key = f"{root}/_sluice/probe/{uuid.uuid4().hex}".lstrip("/")
    try:
        if not _keeps_conditions(client, bucket, key):
            raise TerminalError(
                "the object store of %(bucket)s does not keep conditional writes"
                " (If-None-Match, If-Match). Nothing was written",
                bucket=bucket,
                code="store_without_conditions",
                hint="fences need them: use a store that has them; see "
                "docs/object-store.md",
            )
    finally:
        client.delete(bucket, key)
    client.proven.add(bucket)


def _keeps_conditions(client: StoreClient, bucket: str, key: str) -> bool:
    made = client.put(bucket, key, b"1", _ABSENT)
    if made is None or client.put(bucket, key, b"2", _ABSENT) is not None:
        return False
    changed = client.put(bucket, key, b"3", {"if-match": made.etag})
    if changed is None or client.put(bucket, key, b"4", {"if-match": made.etag}):
        return False
    found = client.get(bucket, key)
    return found is not None and found.body == b"3"
