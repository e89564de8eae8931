"""The staging area of a load: its chunk plan, attempts and finished chunks.

A chunk counts when its manifest is there, and only then; a plan made for other
columns or keys does not count. It must not know Spark or the source.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.errors import TransientError
from ingest.changes.chunks import Chunk, ChunkBy
from ingest.lake.files import local_path, replace_atomic, storage_error


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a load was cut, made once by its first attempt.

    fingerprint  of kind, columns and key: another plan is another load
    bound        cursor position noted before the first attempt; "" = none
    """

    fingerprint: str
    by: ChunkBy
    chunks: tuple[Chunk, ...]
    snapshot: str
    bound: str = ""


@dataclass(frozen=True, slots=True)
class ChunkManifest:
    """A finished chunk: what was read, by which attempt, in which snapshot.

    null_keys  rows with a NULL in their key
    unfit      rows with a value that has no form in the lake
    """

    number: int
    snapshot: str
    attempt: int
    rows: int
    bytes: int
    null_keys: int = 0
    unfit: int = 0


class StagingArea:
    """One load's directory. Every change to it is one atomic rename."""

    def __init__(self, folder: str) -> None:
        self.folder = local_path(folder) / "load"

    def plan(self) -> LoadPlan | None:
        text = _text_of(self.folder / "plan.json")
        if text is None:
            return None
        data = json.loads(text)
        data["chunks"] = tuple(
            Chunk(c["number"], tuple(c["low"]), tuple(c["high"]))
            for c in data["chunks"]
        )
        return LoadPlan(**data)

    def begin(self, plan: LoadPlan) -> None:
        """Starts anew with this plan: everything staged before is dropped."""
        self.clear()
        _save(self.folder / "plan.json", plan)

    def finished(self) -> dict[int, ChunkManifest]:
        found: dict[int, ChunkManifest] = {}
        folder = self.folder / "chunks"
        for path in folder.glob("*.json") if folder.is_dir() else ():
            manifest = ChunkManifest(**json.loads(path.read_text("utf-8")))
            if self.chunk_folder(manifest.number).is_dir():
                found[manifest.number] = manifest
        return found

    def chunk_folder(self, number: int) -> Path:
        return self.folder / "chunks" / f"{number:06d}"

    def finish(self, manifest: ChunkManifest) -> None:
        _save(self.folder / "chunks" / f"{manifest.number:06d}.json", manifest)

    def forget_chunks(self) -> None:
        _remove(self.folder / "chunks")

    def clear(self) -> None:
        # the plan goes first: without it the rest means nothing
        (self.folder / "plan.json").unlink(missing_ok=True)
        _remove(self.folder)


def free_bytes(folder: str) -> int:
    """Free bytes where staged files will lie; the nearest existing parent counts."""
    path = local_path(folder)
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def require_space(folder: str, needed: int) -> None:
    """TransientError `staging_full` when `needed` bytes do not fit."""
    free = free_bytes(folder)
    if free < needed:
        raise TransientError(
            f"staging needs about {needed} bytes, {free} are free",
            code="staging_full",
            hint=f"free space on the file system of {folder}; then retry",
            facts={"needed": needed, "free": free},
        )


def folder_bytes(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _save(path: Path, value: LoadPlan | ChunkManifest) -> None:
    replace_atomic(path, json.dumps(dataclasses.asdict(value)))


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path) from error


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, folder) from error
