"""What `make test` says when a part of the machine is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from config.parts import checks

BROWSER = checks.Missing(package="chromium", tests=("tests/browser",))
SERVER = checks.Missing(package=checks.MARIADB, tests=("tests/spark/test_mariadb.py",))


@pytest.mark.parametrize(
    ("missing", "may_install", "good", "code", "lines"),
    [
        ([], False, True, 0, []),
        (
            [BROWSER],
            False,
            True,
            0,
            ["NOT TESTED: tests/browser (apt-get install chromium)"],
        ),
        # where it may install, what is still untested is a failure
        ([BROWSER], True, True, 1, ["NOT TESTED: tests/browser"]),
        (
            [],
            False,
            False,
            1,
            [
                "FAILED: format, lint, types, import contracts, migrations, "
                "tests of the parts, tests of the pages, tests with Spark, "
                "tests of the product, tests of its deaths"
            ],
        ),
        ([BROWSER], False, False, 1, ["NOT TESTED", "FAILED"]),
    ],
)
def test_exit_code_and_last_lines(
    missing, may_install, good, code, lines, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(checks, "missing_packages", lambda: missing)
    monkeypatch.setattr(checks, "may_install", lambda: may_install)
    monkeypatch.setattr(checks, "install", lambda found: None)
    monkeypatch.setattr(checks, "run", lambda step, out=None: good)
    assert checks.main() == code
    said = capsys.readouterr().out
    for line in lines:
        assert line in said


def test_only_what_cannot_run_is_left_out() -> None:
    parts, _, product, _ = checks.test_steps([BROWSER])
    assert not any("tests/browser" in word for word in product.command)
    assert not [one for one in parts.command if "ignore" in one]


def test_files_of_a_missing_server_are_left_out_where_they_lie() -> None:
    parts, spark, product, _ = checks.test_steps([SERVER, BROWSER])
    assert parts.command[-1] == "tests/integration"
    assert spark.command[-1] == "--ignore=tests/spark/test_mariadb.py"
    assert not any("tests/browser" in word for word in product.command)


def test_pages_and_kills_have_processes_of_their_own() -> None:
    _, pages, _, product, kills = checks.test_steps([])
    last = [step.command[-1] for step in (pages, product, kills)]
    assert last == [*checks.PAGES, *checks.WHOLE, *checks.KILLS]


def test_whoever_asks_for_the_server_says_so_in_its_file_name() -> None:
    """Without the package those files are left out: none may be forgotten."""
    listed = {checks.ROOT / name for name in checks.tests_of("mariadb")}
    using = {
        path
        for path in (checks.ROOT / "tests").rglob("test_*.py")
        if "mariadb_server" in path.read_text() and path != Path(__file__)
    }
    assert using <= listed


@pytest.mark.parametrize("found", [None, "/usr/sbin/mariadbd"])
def test_the_package_of_a_server_is_missing_or_not(found, monkeypatch) -> None:
    monkeypatch.setattr(checks.shutil, "which", lambda name, path=None: found)
    packages = [one.package for one in checks.missing_packages()]
    assert (checks.MARIADB in packages) is (found is None)


def test_every_directory_of_tests_is_run() -> None:
    tests = checks.ROOT / "tests"
    holding = {p.relative_to(tests).parts[0] for p in tests.rglob("test_*.py")}
    listed = {*checks.PARTS, *checks.SPARK, *checks.PAGES, *checks.WHOLE, *checks.KILLS}
    assert {f"tests/{name}" for name in holding} == listed


def test_apt_may_be_forbidden(monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_NO_APT", "1")
    assert not checks.may_install()


def test_no_service_starts_while_packages_are_installed(monkeypatch, tmp_path) -> None:
    policy = tmp_path / "policy-rc.d"
    seen: list[int] = []

    def apt(command, **_):
        seen.append(subprocess.run([str(policy)], check=False).returncode)

    real = subprocess.run
    monkeypatch.setattr(checks, "POLICY", policy)
    monkeypatch.setattr(
        checks.subprocess,
        "run",
        lambda command, **kept: (
            real(command, **kept) if command[0] == str(policy) else apt(command)
        ),
    )
    checks.install([SERVER])
    assert seen == [101, 101]
    assert not policy.exists()
    policy.write_text("the administrator's own")
    monkeypatch.setattr(checks.subprocess, "run", lambda command, **kept: None)
    checks.install([SERVER])
    assert policy.read_text() == "the administrator's own"


def test_both_of_two_steps_count(capsys) -> None:
    good = checks.Step("good", ["sh", "-c", "echo shown"])
    bad = checks.Step("bad", ["sh", "-c", "echo kept; exit 3"])
    assert checks.run_beside([good], bad) == [True, False]
    assert capsys.readouterr().out.rstrip().endswith("kept")
