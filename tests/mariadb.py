"""A throw-away MariaDB server of Debian's package, in the role of a source.

It listens on 127.0.0.1 with a free port, writes a row-based binary log and offers TLS.
Nothing of it outlives `destroy`; no service of the machine takes part.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from socket import gethostname
from typing import Any

import pymysql
import pytest
from pymysql.converters import escape_string

from config.toolchain.checks import MARIADB
from core.processes.child import Child, ChildSpec, spawn
from tests.integration.discovery.tls_proxy import Authority
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS

SUPERUSER = "root"
UNPRIVILEGED = ("mysql", "nobody")
_SMALL = (
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
    # Without these a CREATE or DROP waits for the disk, ten times as long.
    "--loose-innodb-file-per-table=0",
    "--loose-sync-frm=0",
    "--aria-pagecache-buffer-size=8M",
    "--key-buffer-size=1M",
)
_LOGGED = (
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
)


class MariaDbServer:
    """One server. `username` and `password` are its administrator's, over TCP.

    tls_file   certificate and key: written anew and `FLUSH SSL` changes them
    authority  who signed them
    """

    host = "127.0.0.1"
    username = SUPERUSER

    def __init__(self, options: Sequence[str] = (), *, zone: str = "UTC") -> None:
        """zone: of its host, as in TZ."""
        self.port = 0
        self._zone = zone
        self.password = secrets.token_hex(16)
        self._number = 1
        self._options = tuple(options)
        # Short, for the socket's sake, and not in a home: those are for one user only.
        self.directory = Path(tempfile.mkdtemp(prefix="sluice-test-my-"))
        self.authority = Authority(self.directory, "authority")
        self.authority.server_context(host=self.host)
        self.tls_file = self.authority.path.with_suffix(".server")
        self._account = _account()
        self._child: Child | None = None
        self._link: Any = None
        # a child ends with the thread that started it, and any may restart a server
        self._starter = ThreadPoolExecutor(1)

    def start(self) -> None:
        """Create the data directory, start the server, wait until it answers."""
        self._create()
        self.port = free_port()
        self._serve()

    def restart(self) -> None:
        """What was committed stays; every connection breaks."""
        self._stop()
        self._serve()

    def restart_in(self, zone: str) -> None:
        """Its host's zone is another one from then on."""
        self._zone = zone
        self.restart()

    def crash(self) -> None:
        """kill -9. With `--innodb-flush-log-at-trx-commit=1` it comes back with what
        was committed."""
        self._hang_up()
        if self._child is not None:
            self._child.kill()
            self._child.wait(LIMIT_SECONDS)
        self._serve()

    def end_sessions(self) -> None:
        """Every connection breaks, those of replicas too."""
        self._hang_up()
        with closing(self.connect()) as link, link.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist"
                " WHERE user <> 'system user' AND id <> connection_id()"
            )
            for (number,) in cursor.fetchall():
                with suppress(pymysql.MySQLError):  # it may have ended meanwhile
                    cursor.execute(f"KILL SOFT CONNECTION {number}")

    def back_up(self) -> None:
        """Keeps what it has now for `restore`; every connection breaks."""
        self._stop()
        self._copy("data", "backup")
        self._serve()

    def restore(self) -> None:
        """It has again what it had when it was backed up."""
        self._stop()
        self._copy("backup", "data")
        self._serve()

    def become_another(self) -> None:
        """A server by another name, number and port goes on with all that it has."""
        self._stop()
        self._number += 1
        self.port = free_port()
        self._serve()

    def _stop(self) -> None:
        self._hang_up()
        if self._child is not None:
            self._child.ask()
            self._child.wait(LIMIT_SECONDS)

    def _copy(self, origin: str, target: str) -> None:
        shutil.rmtree(self.directory / target, ignore_errors=True)
        subprocess.run(["cp", "-a", origin, target], cwd=self.directory, check=True)

    def sever(self, text: str) -> int:
        """Kill the connections that run statements with this text; how many."""
        with closing(self.connect()) as link, link.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE info LIKE %s"
                " AND command = 'Query' AND id <> CONNECTION_ID()",
                [f"%{text}%"],
            )
            found = [int(row[0]) for row in cursor.fetchall()]
            for number in found:
                # it may have ended meanwhile
                with suppress(pymysql.MySQLError):
                    cursor.execute(f"KILL CONNECTION {number}")
        return len(found)

    def _serve(self) -> None:
        command = [
            *(_program("mariadbd"), *self._common(), *_SMALL, *_LOGGED),
            *(f"--port={self.port}", f"--bind-address={self.host}"),
            *("--skip-networking=0", "--skip-name-resolve", "--max-connections=60"),
            f"--socket={self.directory / 's'}",
            f"--pid-file={self.directory / 'pid'}",
            f"--init-file={self._first_statements()}",
            *("--character-set-server=utf8mb4", "--loose-performance-schema=0"),
            *(f"--ssl-cert={self.tls_file}", f"--ssl-key={self.tls_file}"),
            *self._options,
            *([f"--server-id={self._number}"] if self._number > 1 else []),
        ]
        spec = ChildSpec(
            name="mariadb",
            command=command,
            log=self.directory / "log",
            user=self._account.pw_name if self._account else None,
            directory=self.directory,
            inherits="path",
            environment={"TZ": self._zone},
        )
        self._child = self._starter.submit(spawn, spec).result()
        self._wait_ready()

    def connect(self, database: str | None = None, **options: Any) -> Any:
        """The administrator's connection, each statement its own transaction."""
        known = {"user": self.username, "password": self.password, "autocommit": True}
        return pymysql.connect(
            host=self.host,
            port=self.port,
            database=database,
            charset="utf8mb4",
            **{**known, **options},
        )

    def run(self, *statements: str, database: str | None = None) -> None:
        """Over one connection that stays, in `database` when one is given."""
        if self._link is None:
            self._link = self.connect()
        if database is not None:
            self._link.select_db(database)
        with self._link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create_database(self, name: str) -> None:
        """A new, empty database; one of this name goes before."""
        self.run(f"CREATE OR REPLACE DATABASE {quoted(name)}")

    def drop_database(self, name: str) -> None:
        self.run(f"DROP DATABASE IF EXISTS {quoted(name)}")

    def create_user(self, name: str, password: str, grants: Sequence[str] = ()) -> None:
        """A user from anywhere; `grants` as `SELECT ON shop.*`. Replaces its like."""
        who = f"'{escape_string(name)}'@'%'"
        word = f"'{escape_string(password)}'"
        self.run(
            f"CREATE OR REPLACE USER {who} IDENTIFIED BY {word}",
            *(f"GRANT {grant} TO {who}" for grant in grants),
        )

    def destroy(self) -> None:
        """Kill it and delete everything of it: its data is worth nothing."""
        self._hang_up()
        if self._child is not None:
            self._child.kill()
            self._child.wait(LIMIT_SECONDS)
            self._child = None
        self._starter.shutdown()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _create(self) -> None:
        if self._account:
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        result = subprocess.run(
            [
                *(_program("mariadb-install-db"), *self._common(), *_SMALL),
                "--auth-root-authentication-method=normal",
                *("--skip-test-db", "--skip-name-resolve"),
            ],
            env={"LC_ALL": "C.UTF-8", "PATH": f"{os.defpath}:/usr/sbin:/sbin"},
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
            user=self._account.pw_uid if self._account else None,
            group=self._account.pw_gid if self._account else None,
            extra_groups=[] if self._account else None,
        )
        if result.returncode != 0:
            said = f"{result.stdout}\n{result.stderr}"[-2_000:]
            pytest.fail(f"mariadb-install-db failed: {said}", pytrace=False)

    def _common(self) -> tuple[str, ...]:
        # /tmp is shared with all others that test
        place = self.directory
        return ("--no-defaults", f"--datadir={place / 'data'}", f"--tmpdir={place}")

    def _first_statements(self) -> Path:
        """Only the administrator with the password is let in, and only over TCP."""
        path = self.directory / "first.sql"
        mine = f"'{SUPERUSER}'@'{self.host}'"
        others = (f"'{SUPERUSER}'@'{host}'" for host in ("::1", gethostname()))
        lines = (
            f"CREATE OR REPLACE USER {mine} IDENTIFIED BY '{self.password}';",
            f"GRANT ALL ON *.* TO {mine} WITH GRANT OPTION;",
            f"DROP USER IF EXISTS {', '.join(others)};",
            f"ALTER USER '{SUPERUSER}'@'localhost' ACCOUNT LOCK;",
        )
        path.write_text("\n".join(lines) + "\n")
        if self._account:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)
        return path

    def _wait_ready(self) -> None:
        limit = time.monotonic() + LIMIT_SECONDS
        while True:
            try:
                self.connect().close()
            except pymysql.MySQLError as error:
                ended = self._child is not None and self._child.poll() is not None
                if ended or time.monotonic() > limit:
                    log = (self.directory / "log").read_text()[-2_000:]
                    pytest.fail(f"MariaDB did not start: {error}\n{log}", pytrace=False)
            else:
                return
            time.sleep(0.05)


def quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _program(name: str) -> str:
    """Servers lie in /usr/sbin, which a plain user's PATH may lack."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if found is None:
        pytest.fail(
            f"'{name}' is not installed: apt-get install {MARIADB}",
            pytrace=False,
        )
    return found


def _account() -> pwd.struct_passwd | None:
    """MariaDB does not run as root: then it gets an unprivileged account."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError(f"there is none of the accounts {UNPRIVILEGED}")
