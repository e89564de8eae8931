"""Clients of other people against a running product: `make compat` after `make demo`.

Each client is a program of its own in an environment of its own. It prints one JSON
line per check; what may fail is listed with its reason, and nothing else may.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.toolchain.jars import ensure_jar
from config.toolchain.paths import pinned_jars, pyspark_home

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT_SECONDS = 300


TRANSPORTS = ("binary", "http")
# dbt-spark's own HTTP is Databricks'
BINARY_ONLY = frozenset({"dbt_spark"})


@dataclass(frozen=True)
class Check:
    """`error` is empty when it worked."""

    client: str
    name: str
    error: str = ""
    transport: str = "binary"

    @property
    def id(self) -> str:
        over = "" if self.transport == "binary" else f".{self.transport}"
        return f"{self.client}{over}.{self.name}"


def environment_of(home: Path) -> Path:
    """The clients' own Python; made when it is missing."""
    folder = home / "compat"
    python = folder / "bin" / "python"
    uv = ROOT / ".venv" / "bin" / "uv"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", "3.11", folder], check=True)
    wanted = ["-r", HERE / "requirements.txt"]
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, *wanted], check=True
    )
    return python


def class_paths() -> dict[str, str]:
    """Where the Java programs find Hive's JDBC: 2.3.9 comes with PySpark."""
    jar = next(one for one in pinned_jars("compat") if one.extra == "compat")
    return {
        "hive_jdbc_2": str(pyspark_home() / "jars" / "*"),
        "hive_jdbc_4": str(ensure_jar(jar, lambda _: None)),
    }


def run_client(
    python: Path, program: Path, connection: dict[str, object], class_path: str
) -> list[Check]:
    client, transport = program.stem, str(connection["transport"])
    done = subprocess.run(
        [python, program.name],
        cwd=program.parent,
        env={
            **os.environ,
            "SLUICE_COMPAT": json.dumps(connection),
            "SLUICE_CLASS_PATH": class_path,
        },
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
        check=False,
    )
    found = list(checks_in(client, done.stdout, transport))
    if done.returncode or not found:
        error = done.stderr[-2000:] or "it said nothing"
        found.append(Check(client, "program", error, transport))
    return found


def checks_in(client: str, output: str, transport: str = "binary") -> Iterator[Check]:
    for line in output.splitlines():
        if line.startswith('{"check": '):
            told = json.loads(line)
            yield Check(client, told["check"], told["error"], transport)


def transports_of(client: str) -> tuple[str, ...]:
    return TRANSPORTS[:1] if client in BINARY_ONLY else TRANSPORTS


def row_of(client: str, checks: list[Check]) -> str:
    """A client's line of the table: how much works, by transport."""
    cells = []
    for transport in TRANSPORTS:
        found = [one for one in checks if one.transport == transport]
        worked = sum(not one.error for one in found)
        cells.append(f"{worked} of {len(found)}" if found else "-")
    return "".join(f"{cell:<24}" for cell in (client, *cells)).rstrip() + "\n"


def judge(checks: list[Check], known: dict[str, str]) -> list[str]:
    """What is wrong: failures without a reason, and reasons without a failure."""
    failed = {check.id: check.error for check in checks if check.error}
    ran = {check.id for check in checks}
    new = [
        f"{name} fails: {failed[name][:500]}" for name in failed if name not in known
    ]
    over = [f"{name} works now" for name in known if name in ran and name not in failed]
    return new + over


def main(home: Path) -> int:
    facts = json.loads((home / "connection.json").read_text())
    gateway = facts["gateway"]
    ports = {"binary": gateway["port"], "http": gateway["http_port"]}
    login = {name: facts[name] for name in ("username", "password")}
    known = json.loads((HERE / "known.json").read_text())
    python, java = environment_of(home), class_paths()
    checks = []
    sys.stdout.write("".join(f"{one:<24}" for one in ("client", *TRANSPORTS)) + "\n")
    for program in sorted((HERE / "clients").glob("[a-z]*.py")):
        client, found = program.stem, []
        for transport in transports_of(client):
            at = {"host": gateway["host"], "port": ports[transport]}
            connection = {**at, **login, "transport": transport}
            found += run_client(python, program, connection, java.get(client, ""))
        sys.stdout.write(row_of(client, found))
        checks += found
    for check in checks:
        if check.error and check.id in known:
            sys.stdout.write(f"known: {check.id}: {known[check.id]}\n")
    wrong = judge(checks, known)
    sys.stdout.write("".join(f"WRONG: {line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
