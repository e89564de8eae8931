"""Starts and ends engine processes, and removes those a dead gateway left behind.

An engine dies with the gateway's main thread, and is told its secret through a file
only this user can read. Must not know Thrift or policies.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.class_archive import class_path, shared_classes
from core.files import write_private
from core.processes.child import Child, ChildSpec, java_environment, spawn, stop_all
from core.processes.identity import read_identity
from gateway.engines.port import EngineUnavailable
from gateway.engines.settable import RULES
from gateway.engines.spark_settings import spark_settings

MAIN = "io.sluice.engine.Main"
LOG_TAIL = 2000
SPOOL_BYTES, SPOOL_BYTES_PER_USER = 16 << 30, 8 << 30
LOOK_SECONDS = 0.05
# Fast to start and small before fast to run: most statements are short, and the
# serial collector needs no threads of its own on a two-core machine. Without the last
# one Hudi starts two more JVMs at its first merge, which attach to ours and stop it.
# A code cache of 240 MB is the least that the JVM divides by itself: compiled methods
# that fill it then leave the JVM's own part alone, without which it breaks for good.
# A start fills its metaspace without a collection of the whole heap, and is left alone
# by the slower compiler, which takes what is called four times as often as by default.
# Figures for jstat would wake it twenty times a second. Nobody asks log4j by JMX, and
# to offer it is a fourth of its start. Spark makes names by the letters of the JVM's
# language, and in Turkish upper case of `i` is no `I`.
JAVA_OPTIONS = (
    "-XX:+UseSerialGC -Xss4m -XX:MetaspaceSize=160m -XX:MaxMetaspaceSize=320m "
    "-XX:ReservedCodeCacheSize=240m -Xshare:auto -XX:-UsePerfData "
    "-Dlog4j2.disable.jmx=true "
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000 "
    "-Duser.language=en -Duser.country=US "
    "-Dfile.encoding=UTF-8 -Duser.timezone=UTC -Djol.skipHotspotSAAttach=true"
)
# What Spark has its JVMs started with (its `JavaModuleOptions`).
_OPEN = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net",
    "java.nio", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
    "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
    "sun.util.calendar",
)  # fmt: skip
SPARK_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions "
    + " ".join(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN)
    + " --add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED"
    " -Djdk.reflect.useDirectMethodHandle=false"
)
_READY = '{"ready"'  # an engine that died before may have written above it
AUTHENTICATOR = "io.sluice.engine.SecretAuthenticator"
_ENDS, _ENGINE = "engine ends: ", "io.sluice.engine.Engine"


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine is made of. `home` holds state; `jars` are in class-path order.

    `memory` is the JVM heap (`900m`), `max_result` what Spark may collect into it at
    once, `spool_bytes` what results that are not read yet may have on its disk, of one
    user and in all. Without fresh policy for `stale_seconds` it denies everything, and
    with its control channel closed for `orphan_seconds` it ends itself. `store` is
    Hadoop's settings of the lake's object store, its key among them, `java` the program
    if it is not the one that JAVA_HOME or PATH has.
    """

    home: Path
    jars: tuple[Path, ...]
    memory: str
    cores: int = 2
    max_result: str = "256m"
    spool_bytes: int = SPOOL_BYTES
    spool_bytes_per_user: int = SPOOL_BYTES_PER_USER
    stale_seconds: float = 60.0
    orphan_seconds: float = 20.0
    java_options: str = JAVA_OPTIONS
    java: str = ""
    store: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def run_dir(self) -> Path:
        """Where pid files lie."""
        return self.home / "run"


class EngineProcess:
    """One launched process. `socket_path` is where its control channel must listen."""

    def __init__(self, spec: EngineSpec, engine_id: str, secret: str) -> None:
        self.engine_id = engine_id
        self._spec = spec
        self._secret = secret
        # Paths of unix sockets must be short, so the home will not do.
        self._private = Path(tempfile.mkdtemp(prefix="sluice-engine-"))
        self.socket_path = self._private / "control.sock"
        self._process: Child | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, which leads the process group."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_path(self) -> Path:
        return self._spec.home / "logs" / f"engine-{self.engine_id}.log"

    @property
    def _state_dir(self) -> Path:
        return self._spec.home / "engines" / self.engine_id

    @property
    def _pid_file(self) -> Path:
        return self._spec.run_dir / f"engine-{self.engine_id}.pid.json"

    async def launch(self) -> None:
        """Start the process. Call it on the main thread: the engine dies with it."""
        (self._state_dir / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        # before the secret lies in a file: whoever comes after a kill finds it
        self._record(None)
        start_file = self._write_start_file()
        self._process = spawn(
            ChildSpec(
                name=f"engine-{self.engine_id}",
                command=[*java_command(self._spec, self._state_dir), str(start_file)],
                environment=java_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
                inherits="nothing",
                log=self.log_path,
                directory=self._state_dir,
                stops_group=True,
                death_signal=signal.SIGKILL,
            )
        )
        self._record(self._process)

    async def wait(self) -> int:
        if self._process is None:
            raise EngineUnavailable("the engine was never launched")
        while (code := self._process.poll()) is None:
            await asyncio.sleep(LOOK_SECONDS)
        return code

    async def end(self, *, grace_seconds: float) -> None:
        """End the whole process group, by force after the grace. Idempotent."""
        if self._process is not None:
            await asyncio.to_thread(
                stop_all, [self._process], grace_seconds=grace_seconds
            )
        self._forget()

    def log_tail(self) -> str:
        with contextlib.suppress(OSError), self.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
            return log.read().decode("utf-8", "replace")
        return ""

    def end_reason(self) -> str:
        """Return why the engine ended itself, as its log has it; empty when it did not
        say."""
        log_of_this_one = self.log_tail().rpartition(_READY)[2]
        reason = ""
        for line in log_of_this_one.split("\n"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                if entry["logger"] == _ENGINE and entry["message"].startswith(_ENDS):
                    reason = entry["message"].removeprefix(_ENDS)
        return reason

    def _forget(self) -> None:
        self._pid_file.unlink(missing_ok=True)
        shutil.rmtree(self._private, ignore_errors=True)
        shutil.rmtree(self._state_dir, ignore_errors=True)

    def _record(self, process: Child | None) -> None:
        """What `clean_orphans` needs when this gateway is killed."""
        facts = {
            "pid": process.pid if process else None,
            "born": process.identity.start_time if process else 0.0,
            "folders": [str(self._private), str(self._state_dir)],
        }
        write_private(self._pid_file, json.dumps(facts))

    def _write_start_file(self) -> Path:
        path = self._private / "start.json"
        facts = {
            "engine_id": self.engine_id,
            "secret": self._secret,
            "control_socket": str(self.socket_path),
            "stale_seconds": self._spec.stale_seconds,
            "orphan_seconds": self._spec.orphan_seconds,
            "spark": spark_settings(
                self._state_dir,
                cores=self._spec.cores,
                max_result=self._spec.max_result,
            ),
            "spool_bytes": self._spec.spool_bytes,
            "spool_bytes_per_user": self._spec.spool_bytes_per_user,
            "store": dict(self._spec.store),
            "settable": [[rule.keys, rule.values, rule.words] for rule in RULES],
        }
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(facts, out)
        return path


def java_command(spec: EngineSpec, run_dir: Path) -> list[str]:
    """What starts the JVM: what spark-submit would make of it, which starts another JVM
    only to find that out. The class path is that of drivers: so is the archive."""
    jars = [str(jar) for jar in spec.jars]
    home = os.environ.get("JAVA_HOME")
    return [
        spec.java or (str(Path(home, "bin", "java")) if home else "java"),
        *("-cp", class_path(jars, _spark_home())),
        f"-Xmx{spec.memory}",
        *shlex.split(f"{spec.java_options} {shared_classes(jars)} {SPARK_OPTIONS}"),
        # Hive makes a fresh configuration for the authenticator: it sees only this
        f"-Dhive.server2.custom.authentication.class={AUTHENTICATOR}",
        # killed JVMs leave their unpacked libraries: not in the shared temporary folder
        f"-Djava.io.tmpdir={run_dir / 'tmp'}",
        MAIN,
    ]


def _spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise EngineUnavailable("pyspark is not installed, which has Spark's jars")
    return Path(found.submodule_search_locations[0]).resolve()


def clean_orphans(run_dir: Path) -> list[int]:
    """Kill engines of an earlier gateway, remove their secrets and scratch; return
    their process ids.

    A process counts only when it is as old as its pid file says: ids are reused.
    """
    killed = []
    for path in sorted(run_dir.glob("engine-*.pid.json")):
        facts: dict[str, Any] = {}
        with contextlib.suppress(ValueError, OSError):
            facts = json.loads(path.read_text(encoding="utf-8"))
        identity = read_identity(path)
        if identity is not None and identity.kill_group():
            killed.append(identity.pid)
        for folder in facts.get("folders", ()):
            shutil.rmtree(folder, ignore_errors=True)
        path.unlink(missing_ok=True)
    return killed
