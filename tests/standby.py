"""A standby of the source server of these tests, or a copy of it as it was once, made by
a base backup."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from config.embedded.postgres import EmbeddedPostgres
from core.files import write_private
from tests.source_server import SourceServer


class StandbyPostgres(EmbeddedPostgres):
    """Streams from `primary` as its superuser, until it is promoted; without `follows`
    it is the server restored to the moment of the backup, which `prepare` makes."""

    def __init__(
        self, home: Path, primary: SourceServer, *, follows: bool = True
    ) -> None:
        super().__init__(home, "standby", durable=False)
        self._primary, self._follows = primary, follows

    def _create_cluster(self) -> None:
        primary = self._primary
        account = pwd.getpwnam(self.user) if self.user else None
        where = f"host={primary.host} port={primary.port} user={primary.username}"
        done = subprocess.run(
            [
                str(self._binaries() / "pg_basebackup"),
                *("-D", str(self.data), "-d", where, "-X", "stream", "-c", "fast"),
                "--no-sync",
            ],
            env={"PGPASSWORD": primary.password, "PATH": os.defpath},
            cwd=self.store,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        if done.returncode != 0:
            pytest.fail(f"pg_basebackup failed: {done.stderr[-1_000:]}", pytrace=False)
        (self.data / "sluice.port").unlink(missing_ok=True)
        if self._follows:
            with (self.data / "postgresql.conf").open("a") as conf:
                conf.write(
                    f"\nprimary_conninfo = '{where} password={primary.password}'\n"
                    "wal_receiver_status_interval = 1s\n"
                )
            (self.data / "standby.signal").touch()
        write_private(self._password_file, primary.password)
