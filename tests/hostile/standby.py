"""A streaming standby of an embedded PostgreSQL, made by pg_basebackup.

Started it follows its primary; promoted it is a primary of another timeline; without
`follow` it is the server as it was when the copy was made.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from config.embedded.postgres import EmbeddedPostgres


def standby_of(
    primary: EmbeddedPostgres, name: str, *, follow: bool = True
) -> EmbeddedPostgres:
    """Not started yet. follow=False: a copy for a restore to this moment."""
    made = EmbeddedPostgres(primary.home, name, durable=False)
    _copy(primary, made.data)
    keys = primary.home / "keys"
    (keys / f"postgres-{name}").write_text(primary.address.password)
    if follow:
        # the embedded server writes postgresql.auto.conf anew at each start
        with (made.data / "postgresql.conf").open("a") as file:
            file.write(f"primary_conninfo = '{_conninfo(primary)}'\n")
        signal = made.data / "standby.signal"
        signal.touch()
        if primary.user:
            account = pwd.getpwnam(primary.user)
            os.chown(signal, account.pw_uid, account.pw_gid)
    return made


def _conninfo(primary: EmbeddedPostgres) -> str:
    at = primary.address
    return (
        f"host={at.host} port={at.port} user={at.username} password={at.password}"
        " application_name=standby"
    )


def _copy(primary: EmbeddedPostgres, target: Path) -> None:
    at = primary.address
    account = pwd.getpwnam(primary.user) if primary.user else None
    subprocess.run(
        [
            str(primary._binaries() / "pg_basebackup"),
            *("-h", at.host, "-p", str(at.port), "-U", at.username),
            *("-D", str(target), "--no-sync", "--checkpoint=fast", "-X", "stream"),
        ],
        env={"LC_ALL": "C.UTF-8", "PATH": os.defpath, "PGPASSWORD": at.password},
        cwd=primary.store,
        check=True,
        timeout=120,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )
