"""`make test`: lint, types, import contracts, migrations and every test.

All of it runs even when a part fails, so that one run tells everything. What cannot be
tested on this machine is named at the end, never passed over in silence.

Two steps run side by side, and whichever ends lets the next one begin: a machine of two
cores is busy from the first to the last minute.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from config.toolchain import slices

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
SAID = ROOT / ".sluice" / "checks"
PARTS = ("tests/unit", "tests/integration")
SPARK = ("tests/spark",)
# Browsers and stacks of their own first: the fault tests leave a product that has
# been killed in every part, and theirs is the one of the acceptance tests.
PRODUCT = ("tests/acceptance", "tests/browser", "tests/fault")
# Two of them start JVMs. With these two alone both cores rest a seventh of the time.
AT_ONCE = 3
# A database, a broker and a Django per worker: more of them than cores only wait.
WORKERS = ("-n", "2", "--dist", "loadfile")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The programs alone: the package of the server would start one.
MARIADB = "mariadb-server-core mariadb-client-core"
GALERA = Path("/usr/lib/galera/libgalera_smm.so")
# Servers lie where a plain user's PATH does not look.
SERVERS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
MOST_REASONS = 40
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
        Step(
            "templates",
            [str(BIN / "djlint"), "--lint", "--quiet", "frontend/templates"],
        ),
        Step("types", [str(BIN / "mypy")], keys),
        Step("import contracts", [str(BIN / "lint-imports"), "--no-cache"]),
        Step("migrations", check, {**keys, "PYTHONWARNINGS": "ignore"}),
    ]


def all_steps(missing: list[Missing], long: slices.Slice) -> list[Step]:
    """In the order in which they begin.

    The longest begin first: the parts, spread over both cores, what shares one Spark
    session, and what needs the product. When that has ended, what reads the code,
    engines, and what has drivers of its own come one after the other. One
    product serves all tests that need it, in one process: a browser driver leaves an
    event loop there that asynchronous tests stumble over, and none of these is.
    """
    pytest = [str(BIN / "python"), "-m", "pytest", f"--long={long}"]
    paths = [path for one in missing for path in one.tests]

    def step(name: str, parts: tuple[str, ...], *options: str) -> Step:
        ignored = [f"--ignore={path}" for path in paths if path.startswith(parts)]
        return Step(name, [*pytest, *options, *parts, *ignored])

    return [
        step("tests of the parts", PARTS, *WORKERS),
        step("tests with Spark", SPARK, "-m", "not own_driver and not engine"),
        step("tests of the product", PRODUCT, "-m", "product"),
        *static_steps(),
        step("tests of engines", SPARK, "-m", "engine and not own_driver"),
        step("tests of pages and starts", PRODUCT, "-m", "not product"),
        step("tests with drivers of their own", SPARK, "-m", "own_driver"),
    ]


def unit_steps() -> list[Step]:
    """Lint, types and the unit tests of the packages with changes; of all packages
    when `core` changed or nothing did."""
    packages = {path.partition("/")[0] for path in changed_files()}
    known = {path.name for path in (ROOT / "tests" / "unit").iterdir()}
    chosen = packages & known if "core" not in packages else set()
    folders = [f"tests/unit/{name}" for name in sorted(chosen | {"config"})]
    paths = folders if chosen else ["tests/unit"]
    keys = throw_away_keys()
    return [
        Step("lint", [str(BIN / "ruff"), "check", "--quiet", "."]),
        Step("types", [str(BIN / "mypy")], keys),
        Step("units", [str(BIN / "python"), "-m", "pytest", "-q", *WORKERS, *paths]),
    ]


def changed_files() -> list[str]:
    """Files that differ from the branch `main`, and those not committed yet."""
    names: set[str] = set()
    for command in (
        ["git", "diff", "--name-only", "main...HEAD"],
        ["git", "status", "--porcelain", "--untracked-files=all"],
    ):
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
        names.update(line.split()[-1] for line in done.stdout.splitlines() if line)
    return sorted(names)


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
    if not GALERA.exists():
        found.append(Missing("galera-4", tests_of("galera")))
    if not shutil.which("curl"):
        found.append(Missing("curl", ("tests/acceptance/test_documented.py",)))
    if not shutil.which("slapd", path=SERVERS):
        found.append(Missing("slapd", ("tests/integration/ldap",)))
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        found.append(Missing("prometheus", tests_of("prometheus")))
    return found


def tests_of(server: str) -> tuple[str, ...]:
    """A test file that wants this server has its name in its own."""
    files = (ROOT / "tests").rglob(f"test_*{server}*.py")
    wanted = (*PARTS[1:], *SPARK, *PRODUCT)
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


def run(step: Step, *, speaking: threading.Lock | None = None) -> bool:
    """Run it to its end. speaking: held while its words are shown, all at once; until
    then they are read in `.sluice/checks/`. Without one they come as they are said."""
    started = time.monotonic()
    say(f"== {step.name}")
    with contextlib.ExitStack() as stack:
        out = None
        if speaking is not None:
            path = log_of(step.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            out = stack.enter_context(path.open("w+", errors="replace"))
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
        with speaking or contextlib.nullcontext():
            if out is not None:
                out.seek(0)
                say(out.read().rstrip())
            say(f"-- {step.name}: {'ok' if is_good else 'FAILED'} ({seconds:.0f} s)")
    return is_good


def run_side_by_side(steps: list[Step]) -> list[str]:
    """So many at once, in their order; the names of those that failed."""
    speaking = threading.Lock()
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        good = list(pool.map(lambda step: run(step, speaking=speaking), steps))
    return [step.name for step, is_good in zip(steps, good, strict=True) if not is_good]


def log_of(name: str) -> Path:
    return SAID / f"{name.replace(' ', '-')}.log"


def reasons(name: str) -> list[str]:
    """Of a step of tests that failed: what failed, then the first lines that say why.
    They lie far above the end of the run, where logs are often cut."""
    log = log_of(name)
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    tests = [line for line in lines if line.startswith(("FAILED tests", "ERROR tests"))]
    return [*tests, *[line for line in lines if line.startswith("E  ")][:MOST_REASONS]]


def commit() -> str:
    """The hash of the commit that is checked out; "" where there is none."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def name_slice(long: slices.Slice) -> None:
    """How to repeat the long tests of this run."""
    if long.count > 1:
        folders = " ".join((*PARTS, *SPARK, *PRODUCT))
        say(f"long tests: slice {long} of this commit; again, and alone:")
        say(f"  .venv/bin/python -m pytest --long={long} -m long {folders}")


def main(arguments: list[str]) -> int:
    if "--static" in arguments:
        return min(1, sum(not run(step) for step in static_steps()))
    if "--unit" in arguments:
        return min(1, sum(not run(step) for step in unit_steps()))
    missing = missing_packages()
    if missing and may_install():
        install(missing)
        missing = missing_packages()
    long = slices.slice_of_commit(commit())
    if "--all" in arguments:
        long = slices.ALL
        os.environ.setdefault("SLUICE_ACCEPTANCE_ROWS", "1000000")
    name_slice(long)
    started = time.monotonic()
    failed = run_side_by_side(all_steps(missing, long))
    seconds = time.monotonic() - started
    say(f"-- all of it: {seconds:.0f} s")
    for one in missing:
        names = ", ".join(one.tests)
        say(f"NOT TESTED: {names} (apt-get install {one.package})")
    name_slice(long)
    if failed:
        for name in failed:
            for line in reasons(name):
                say(line)
        say(f"FAILED: {', '.join(failed)}")
        return 1
    return 1 if missing and may_install() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
