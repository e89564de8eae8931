"""One suite over both storages: `lake` is the address of an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.lake.place import use_object_store
from tests.object_store import ObjectStore


@pytest.fixture(params=["files", "objects"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "files":
        yield str(tmp_path)
        return
    store: ObjectStore = request.getfixturevalue("object_store")
    use_object_store(store.access)
    yield store.new_lake()
    use_object_store(None)
