"""The world in which `tests.fault.chain_model` lets a chain's readers and writers act:
a lake of memory, a source, its database, and who acts next."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from greenlet import getcurrent, greenlet

from core.errors import SluiceError
from ingest.contract import segments
from ingest.contract.segments import Control
from ingest.lake import chain
from ingest.lake.port import Change, Place, StoredFile

TABLES = (1, 2)
KEYS = ("a", "b")
STREAM = "s"


DECODE = lru_cache(20_000)(segments.decode_segment)


class Violation(AssertionError):
    """What must never happen."""


@dataclass
class Store:
    """Files by path. volatile: seen by all, and gone when the power fails."""

    world: World
    files: dict[str, bytes] = field(default_factory=dict)
    volatile: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Spot:
    """See `Place`."""

    store: Store
    path: str

    @property
    def uri(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def __truediv__(self, name: str) -> Place:
        return Spot(self.store, f"{self.path}/{name}")

    def read(self) -> bytes | None:
        self.store.world.pause()
        return self.store.files.get(self.path)

    def read_part(self, start: int, size: int) -> bytes | None:
        self.store.world.pause()
        found = self.store.files.get(self.path)
        if found is None or (start < 0 and -start >= len(found)):
            return found
        return found[start:][:size]

    def create(self, content: str | bytes) -> bool:
        world, files = self.store.world, self.store.files
        world.pause()
        if self.path in files and "overwrite" not in world.broken:
            return False
        files[self.path] = content.encode() if isinstance(content, str) else content
        self.store.volatile.add(self.path)
        world.pause()
        self.store.volatile.clear()  # the folder is synced as one
        return True

    def replace(self, text: str) -> None:
        self.store.world.pause()
        self.store.files[self.path] = text.encode()

    def update(self, change: Change) -> None:
        self.store.world.pause()
        found = self.store.files.get(self.path)
        wanted = change(None if found is None else found.decode())
        if wanted is not None:
            self.store.files[self.path] = wanted.encode()
            self.store.volatile.clear()

    def names(self) -> list[str]:
        self.store.world.pause()
        start = len(self.path) + 1
        return [path[start:] for path in self.store.files]

    def files(self, *, leave_out: str = "", start: str = "") -> Iterator[StoredFile]:
        raise NotImplementedError

    def exists(self) -> bool:
        self.store.world.pause()
        return self.path in self.store.files

    def delete(self) -> None:
        self.store.world.pause()
        self.store.files.pop(self.path, None)

    def delete_all(self) -> None:
        raise NotImplementedError

    def delete_page(self, seconds: float) -> tuple[int, bool]:
        raise NotImplementedError

    def free_bytes(self) -> int | None:
        return None


Rows = dict[str, int]


@dataclass
class Source:
    """A log of changes (table, key, value; 0 = deleted), which is read before what it
    says can be seen. told: up to where it was told that all is durable; before that it
    remembers nothing. gone: up to where it remembers nothing, though nobody told it."""

    log: list[tuple[int, str, int]] = field(default_factory=list)
    unseen: set[int] = field(default_factory=set)
    told: int = 0
    gone: int = 0

    def write(self, rng: random.Random) -> None:
        table, key = rng.choice(TABLES), rng.choice(KEYS)
        locked = {self.log[place - 1][:2] for place in self.unseen}
        if (table, key) not in locked:
            self.log.append(
                (table, key, len(self.log) + 1 if rng.random() < 0.7 else 0)
            )
            self.unseen.add(len(self.log))

    def shown(self) -> list[int]:
        return [n for n in range(1, len(self.log) + 1) if n not in self.unseen]

    def fold(self, table: int, places: list[int], rows: Rows | None = None) -> Rows:
        found = dict(rows or {})
        for place in places:
            of, key, value = self.log[place - 1]
            if of == table:
                found.pop(key, None)
                found |= {key: value} if value else {}
        return found


@dataclass(frozen=True)
class Commit:
    """The newest of a lake table. at: what its load may show already."""

    rows: Rows
    epoch: int
    at: int


@dataclass
class Database:
    """What is forgotten when a backup is put back. cuts: of loads that go on."""

    cuts: dict[int, int] = field(default_factory=dict)
    loading: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)
    driver: int = 0

    def copy(self) -> Database:
        return Database(
            dict(self.cuts), set(self.loading), set(self.paused), self.driver
        )


@dataclass
class Request:
    control: Control
    number: int = 0


@dataclass
class World:
    seed: int
    broken: frozenset[str] = frozenset()
    rng: random.Random = field(init=False)
    actors: list[greenlet] = field(default_factory=list)
    stopped: dict[greenlet, int] = field(default_factory=dict)
    source: Source = field(default_factory=Source)
    database: Database = field(default_factory=Database)
    lake: dict[int, Commit] = field(default_factory=dict)
    fence: Counter[int] = field(default_factory=Counter)
    savepoints: dict[int, Commit] = field(default_factory=dict)
    dropped: dict[int, Commit] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    remembered: Counter[int] = field(default_factory=Counter)
    excused: set[int] = field(default_factory=set)
    facts: Counter[str] = field(default_factory=Counter)
    is_calm: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.store = Store(self)
        self.folder = Spot(self.store, STREAM)
        self.backup = self.database.copy()
        self.main = getcurrent()
        self.is_calm = True
        chain.begin_stream(self.folder, above=0)
        self.is_calm = False

    def pause(self) -> None:
        if not self.is_calm:
            self.main.switch()

    def start(self, work: Callable[[World], None]) -> greenlet:
        def run() -> None:
            try:
                work(self)
            except SluiceError as error:
                self.facts[error.code] += 1
                if error.code != "superseded":
                    raise Violation(f"{error.code}: {error}") from error

        actor = greenlet(run)
        self.actors.append(actor)
        return actor

    def newest(self) -> int:
        """Of the segments that are durable."""
        names = (p.rpartition("/")[2] for p in self.store.files if p.endswith(".seg"))
        paths = (int(name[: chain.DIGITS]) for name in names)
        seen = {int(p[-16:-4]) for p in self.store.volatile if p.endswith(".seg")}
        return max((n for n in paths if n not in seen), default=0)

    def tell(self, position: int) -> None:
        """Acknowledges at the source."""
        path = f"{STREAM}/{chain.segment_name(self.newest())}"
        durable = DECODE(self.store.files[path])
        if position > int(durable.end):
            raise Violation(f"the source was told {position}, durable is {durable.end}")
        self.source.told = max(self.source.told, position)
