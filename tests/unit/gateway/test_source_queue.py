"""Look-ups of live sources, which wait for name servers, keep nothing else waiting."""

from __future__ import annotations

import asyncio
import threading

from catalog.access.policy import Principal
from gateway import store as stores
from gateway.store import Store


def test_slow_look_ups_of_sources_leave_metadata_its_threads(monkeypatch):
    let_go = threading.Event()
    begun = threading.Semaphore(0)

    def slow(*_named: object) -> None:
        begun.release()
        let_go.wait()

    monkeypatch.setattr(stores, "principal_for", lambda name: Principal(name))
    monkeypatch.setattr(stores.live, "live_table", slow)
    monkeypatch.setattr(
        stores.lake, "lake_databases_matching", lambda *_one, limit: ["shop"]
    )
    monkeypatch.setattr(stores.WorkQueue, "_hygienic", lambda _queue, work: work())

    async def play() -> list[str]:
        store = Store()
        users = ("ann", "ann", "ann", "bob", "bob", "bob")
        waiting = [
            asyncio.create_task(store.live_table(user, "erp", "public", "orders"))
            for user in users
        ]
        for _ in range(4):
            await asyncio.to_thread(begun.acquire)
        try:
            return await store.databases("eve", None, limit=9)
        finally:
            let_go.set()
            await asyncio.gather(*waiting)
            await store.close()

    assert asyncio.run(play()) == ["shop"]
