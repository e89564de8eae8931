"""Sets this checkout up: virtual environment, Python packages, jars, our own jar.

Run by the system's Python with nothing installed (`make setup`). Everything is checked
by hash; a stamp makes the second run quick and offline.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # run as a script: the folder of this file must not shadow

from config.toolchain.class_lists import NotArchived, archive_classes  # noqa: E402
from config.toolchain.combination import PYTHON, Combination, machine_problem, problem  # noqa: E402
from config.toolchain.installed import installed, java_version  # noqa: E402
from config.toolchain.jars import PartMissing, ensure_jars  # noqa: E402
from config.toolchain.javac import CompilationFailed, ensure_sluice_jar  # noqa: E402
from config.toolchain.paths import VENV, extras_of, sluice_jar, spark_jars  # noqa: E402
from core.class_archive import class_archive  # noqa: E402

PARTS = Path(__file__).resolve().parent
STAMP = VENV / "sluice-stamp.json"


class SetupFailed(Exception):
    """The set-up cannot go on; the text is one line with what to do."""


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)  # noqa: T201


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also what tests need")
    parser.add_argument(
        "--s3", action="store_true", help="also jars for a lake on an object store"
    )
    options = parser.parse_args()
    wants_dev: bool = options.dev
    extras = ("s3",) if options.s3 else extras_of(_lake())
    try:
        check_machine()
        install_packages(wants_dev=wants_dev)
        ensure_jars(say, *(("s3",) if wants_dev else extras))
        if found := problem(installed()):
            raise SetupFailed(found)
        ensure_sluice_jar(say)
        keep_classes(*extras)
    except (SetupFailed, PartMissing) as error:
        print(f"setup failed: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except CompilationFailed as error:
        print(f"setup failed: our Java does not compile\n{error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _lake() -> str:
    """Where the lake will be, as far as the environment says; others pass --s3."""
    return os.environ.get("SLUICE_LAKE_URI", "")


def check_machine() -> None:
    """Python and its venv, Java and its compiler; SetupFailed names the apt line."""
    version = sys.version.split()[0]
    if not version.startswith(f"{PYTHON}."):
        raise SetupFailed(machine_problem(Combination(version, java="", javac="")))
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupFailed(
            "this Python has no venv: apt-get install python3.11-venv, then run again"
        )
    if sluice_jar().exists() and STAMP.exists():
        return  # java is asked anyway before a start; keep the quick run quick
    facts = Combination(version, java_version("java"), java_version("javac"))
    if line := machine_problem(facts):
        raise SetupFailed(line)


def install_packages(*, wants_dev: bool) -> None:
    """Install what the lock names, exactly; nothing to do when the stamp says so."""
    name = "requirements-dev" if wants_dev else "requirements"
    wanted = {part: _digest(part) for part in ("requirements-build", name)}
    if _stamped().items() >= wanted.items():
        return
    python = _environment()
    say(f"installing Python packages ({name}.lock)")
    _pip(python, "-r", str(PARTS / "requirements-build.lock"))
    # the build tools above are locked too, so sources are built with exactly them
    _pip(python, "--no-build-isolation", "-r", str(PARTS / f"{name}.lock"))
    if wants_dev:  # it contains all of the other
        wanted["requirements"] = _digest("requirements")
    STAMP.write_text(json.dumps({**_stamped(), **wanted}, indent=1))


def keep_classes(*extras: str) -> None:
    """An archive of the classes for the class path of drivers and engines. They start
    without one, too: it takes them longer."""
    jars = [str(jar) for jar in spark_jars(*extras)]
    if class_archive(jars).exists():
        return
    say("keeping Spark's classes, so that drivers and engines start sooner")
    try:
        archive_classes(VENV / "bin" / "python", jars)
    except NotArchived as error:
        say(f"that failed; they start without: {error}")


def _environment() -> Path:
    python = VENV / "bin" / "python"
    works = python.exists() and _runs([str(python), "-m", "pip", "--version"])
    if not works:
        say("creating .venv")
        venv.create(VENV, clear=True, symlinks=True, with_pip=True)
    return python


def _pip(python: Path, *arguments: str) -> None:
    command = [
        *(str(python), "-m", "pip", "install", "--quiet", "--no-deps"),
        *("--require-hashes", "--disable-pip-version-check", "--no-input"),
        *arguments,
    ]
    done = subprocess.run(command, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode != 0:
        raise SetupFailed("pip could not install the locked packages (see above)")


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _digest(name: str) -> str:
    lock = (PARTS / f"{name}.lock").read_bytes()
    return hashlib.sha256(lock + sys.version.encode()).hexdigest()


def _stamped() -> dict[str, str]:
    try:
        body = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in body.items()}


if __name__ == "__main__":
    raise SystemExit(main())
