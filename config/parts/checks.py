"""`make test`: lint, types, import contracts, migrations, then every test.

All of it runs even when a part fails, so that one run tells everything. What cannot be
tested on this machine is named at the end, never passed over in silence.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
PARTS = ("tests/unit", "tests/integration")
SPARK = ("tests/spark",)
PAGES = ("tests/browser",)
WHOLE = ("tests/acceptance",)
KILLS = ("tests/fault",)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The programs alone: the package of the server would start one.
MARIADB = "mariadb-server-core mariadb-client-core"
# Servers lie where a plain user's PATH does not look.
SERVERS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
POLICY = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True, slots=True)
class Step:
    """One check. `environment` is added to ours."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    """A system package that tests (files or directories) need and is not here.

    package  one name, or several that belong together, as apt-get takes them
    """

    package: str
    tests: tuple[str, ...]


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def throw_away_keys() -> dict[str, str]:
    """Type checker and migration check read the settings, which want good keys."""
    return {
        "SLUICE_SECRET_KEY": secrets.token_urlsafe(48),
        "SLUICE_SECRETS_KEYS": base64.urlsafe_b64encode(os.urandom(32)).decode(),
        "SLUICE_SERVICE_SECRET": secrets.token_urlsafe(48),
    }


def static_steps() -> list[Step]:
    """Everything that reads the code and runs none of it."""
    keys = throw_away_keys()
    python = str(BIN / "python")
    check = [python, "manage.py", "makemigrations", "--check", "--dry-run"]
    return [
        Step("format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
        Step("lint", [str(BIN / "ruff"), "check", "--quiet", "."]),
        Step("types", [str(BIN / "mypy")], keys),
        Step("import contracts", [str(BIN / "lint-imports")]),
        Step("migrations", check, {**keys, "PYTHONWARNINGS": "ignore"}),
    ]


def test_steps(missing: list[Missing]) -> list[Step]:
    """Parts and pages beside Spark, which wait for different things; then the whole
    product with a million rows, and beside it one whose processes are killed. A browser
    driver leaves an event loop in its process that asynchronous tests stumble over,
    so pages have one of their own."""
    pytest = [str(BIN / "python"), "-m", "pytest"]
    paths = [path for one in missing for path in one.tests]

    def step(name: str, parts: tuple[str, ...]) -> Step:
        ignored = [f"--ignore={path}" for path in paths if path.startswith(parts)]
        return Step(name, [*pytest, *parts, *ignored])

    is_blind = any("tests/browser" in one.tests for one in missing)
    return [
        step("tests of the parts", PARTS),
        *([] if is_blind else [step("tests of the pages", PAGES)]),
        step("tests with Spark", SPARK),
        step("tests of the product", WHOLE),
        step("tests of its deaths", KILLS),
    ]


def is_debian() -> bool:
    return Path("/etc/debian_version").exists() and bool(shutil.which("apt-get"))


def may_install() -> bool:
    """Whether system packages may be installed here without asking anybody."""
    return os.geteuid() == 0 and is_debian() and not os.environ.get("SLUICE_NO_APT")


def missing_packages() -> list[Missing]:
    found = []
    if not any(shutil.which(name) for name in BROWSERS):
        found.append(Missing("chromium", ("tests/browser",)))
    if not shutil.which("mariadbd", path=SERVERS):
        found.append(Missing(MARIADB, tests_of("mariadb")))
    if not shutil.which("slapd", path=SERVERS):
        found.append(Missing("slapd", ("tests/integration/ldap",)))
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        found.append(Missing("prometheus", tests_of("prometheus")))
    return found


def tests_of(server: str) -> tuple[str, ...]:
    """A test file that wants this server has its name in its own."""
    files = (ROOT / "tests").rglob(f"test_*{server}*.py")
    wanted = (*PARTS[1:], *SPARK, *WHOLE, *KILLS)
    names = sorted(path.relative_to(ROOT).as_posix() for path in files)
    return tuple(name for name in names if name.startswith(wanted))


def install(missing: list[Missing]) -> None:
    """By apt, starting no service. A failure leaves the package missing."""
    names = [name for one in missing for name in one.package.split()]
    say(f"installing {', '.join(names)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    commands = (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names],
    )
    with no_services():
        for command in commands:
            quiet = subprocess.DEVNULL
            subprocess.run(command, env=environment, stdout=quiet, check=False)


@contextlib.contextmanager
def no_services() -> Iterator[None]:
    """Some come with one: Debian starts none while this file says so."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def run(step: Step, *, out: IO[str] | None = None) -> bool:
    """out: where its words go instead of ours."""
    started = time.monotonic()
    say(f"== {step.name}")
    done = subprocess.run(
        step.command,
        cwd=ROOT,
        env={**os.environ, **step.environment},
        stdout=out,
        stderr=out,
        check=False,
    )
    is_good = done.returncode == 0
    seconds = time.monotonic() - started
    say(f"-- {step.name}: {'ok' if is_good else 'FAILED'} ({seconds:.0f} s)")
    return is_good


def run_beside(some: list[Step], other: Step) -> list[bool]:
    """Some in their order, the other at once; its words come when all have ended."""
    with tempfile.TemporaryFile("w+") as said, ThreadPoolExecutor() as pool:
        beside = pool.submit(run, other, out=said)
        are_good = [*(run(one) for one in some), beside.result()]
        said.seek(0)
        say(said.read())
    return are_good


def main() -> int:
    if "--static" in sys.argv[1:]:
        return min(1, sum(not run(step) for step in static_steps()))
    missing = missing_packages()
    if missing and may_install():
        install(missing)
        missing = missing_packages()
    static = static_steps()
    *parts, spark, product, kills = test_steps(missing)
    steps = [*static, *parts, spark, product, kills]
    are_good = [
        *(run(step) for step in static),
        *run_beside(parts, spark),
        *run_beside([product], kills),
    ]
    failed = [step.name for step, good in zip(steps, are_good, strict=True) if not good]
    for one in missing:
        names = ", ".join(one.tests)
        say(f"NOT TESTED: {names} (apt-get install {one.package})")
    if failed:
        say(f"FAILED: {', '.join(failed)}")
        return 1
    return 1 if missing and may_install() else 0


if __name__ == "__main__":
    sys.exit(main())
