"""Whether the lake's storage can be used now: one quick look, or a thorough one.

It must not know who asks.
"""

from __future__ import annotations

from django.conf import settings

from core.errors import SluiceError
from core.object_store import StoreAccess, is_object_uri, split_uri
from core.sentences import Sentence
from ingest.lake.place import place_at
from ingest.lake.s3.client import StoreClient
from ingest.lake.s3.objects import ObjectPlace, require_conditions

QUICK_SECONDS = 2.0


def store_problem() -> str:
    """Empty when the lake's object store answers, or the lake is on files: those are
    looked at without asking anybody."""
    uri: str = settings.SLUICE_LAKE_URI
    access: StoreAccess | None = settings.SLUICE_OBJECT_STORE
    if not is_object_uri(uri):
        return ""
    if access is None:
        return Sentence("the lake is on an object store, and there is no key for it")
    bucket, prefix = split_uri(uri)
    try:
        StoreClient(access, tries=1, seconds=QUICK_SECONDS).page(
            bucket, f"{prefix}/_sluice/fence/", size=1
        )
    except SluiceError as error:
        return error.message
    return ""


def prove_store() -> None:
    """SluiceError unless the lake's object store takes what fences need."""
    place = place_at(settings.SLUICE_LAKE_URI)
    if isinstance(place, ObjectPlace):
        require_conditions(place / "_sluice" / "fence")
