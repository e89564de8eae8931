"""Somebody who writes into a lake table's files and was never asked to."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro

TOKEN = 900_000


@dataclass(frozen=True)
class Outsider:
    lake: Path
    table: Path
    table_id: int

    @property
    def timeline(self) -> Path:
        return self.table / ".hoodie" / "timeline"

    def plan(self) -> str:
        """The instant of the one compaction that is planned and not done."""
        names = [path.name for path in self.timeline.iterdir()]
        done = {name.partition("_")[0] for name in names if name.endswith(".commit")}
        asked = {
            n.partition(".")[0] for n in names if n.endswith("compaction.requested")
        }
        (found,) = asked - done
        return found

    def steal_lock(self) -> None:
        (self.lake / "_sluice" / "fence" / str(self.table_id)).write_text(f"{TOKEN}\n")

    def lose_request(self) -> None:
        """Of a compaction that was begun: its plan is gone for good."""
        request = self.timeline / f"{self.half_compact()}.compaction.requested"
        request.unlink()
        request.with_name(f".{request.name}.crc").unlink(missing_ok=True)

    def leave_begun(self, asked: datetime) -> str:
        """What is left of a compaction that began at that moment, when its request is
        gone; its instant."""
        instant = f"{asked.astimezone(UTC):%Y%m%d%H%M%S%f}"[:17]
        self._begin(instant, self._base())
        return instant

    def half_compact(self) -> str:
        """Begins the planned compaction and ends in the middle of its first file."""
        asked = self.plan()
        # one that is in the plan: no attempt writes any other
        logs = {path.name[1:].partition("_")[0] for path in self.table.glob(".*.log.*")}
        self._begin(asked, self._base(logs))
        return asked

    def _begin(self, instant: str, base: Path) -> None:
        """With the file group of this base file, to the middle of its next one."""
        (self.timeline / f"{instant}.compaction.inflight").touch()
        file_id = base.name.partition("_")[0]
        half = base.read_bytes()[: base.stat().st_size // 2]
        base.with_name(f"{file_id}_0-77-77_{instant}.parquet").write_bytes(half)

    def change_properties(self) -> None:
        place = self.table / ".hoodie" / "hoodie.properties"
        text = place.read_text()
        assert "EVENT_TIME_ORDERING" in text
        place.write_text(text.replace("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"))
        place.with_name(".hoodie.properties.crc").unlink(missing_ok=True)

    def commit_with_more_buckets(self, bucket: int) -> None:
        """The rows of a base file once more in another bucket, by a commit that knows
        nothing of positions."""
        base = self._base()
        now = f"{datetime.now(UTC):%Y%m%d%H%M%S%f}"[:17]
        file_id = f"{bucket:08d}{base.name.partition('_')[0][8:]}"
        copy = base.with_name(f"{file_id}_0-77-77_{now}.parquet")
        shutil.copy(base, copy)
        schema, record = self._commit_of(base)
        for stats in record["partitionToWriteStats"].values():
            stats[:] = [stat for stat in stats if stat["path"].endswith(base.name)]
            for stat in stats:
                stat |= {"fileId": file_id, "path": copy.name, "prevCommit": "null"}
        record["extraMetadata"].pop("_sluice")
        for state in ("requested", "inflight"):
            other = next(self.timeline.glob(f"*.deltacommit.{state}"))
            shutil.copy(other, self.timeline / f"{now}.deltacommit.{state}")
        done = self.timeline / f"{now}_{int(now) + 1}.deltacommit"
        with done.open("wb") as out:
            fastavro.writer(out, schema, [record])

    def _base(self, groups: Collection[str] = ()) -> Path:
        """The newest one, of these file groups if there are any."""
        found = [
            path
            for path in self.table.glob("*.parquet")
            if not groups or path.name.partition("_")[0] in groups
        ]
        return max(found, key=lambda path: path.stat().st_mtime)

    def _commit_of(self, base: Path) -> tuple[Any, Any]:
        asked = base.stem.rpartition("_")[2]
        (listed,) = self.timeline.glob(f"{asked}_*commit")
        with listed.open("rb") as file:
            reader = fastavro.reader(file)
            return reader.writer_schema, next(reader)
