"""What `make test` says when a part of the machine is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from config.toolchain import checks, slices

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
                "FAILED: tests of the parts, tests with Spark, tests of the product, "
                "format, lint, templates, types, import contracts, migrations, "
                "tests of engines, tests of pages and starts, "
                "tests with drivers of their own"
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
    monkeypatch.setattr(checks, "run", lambda step, speaking=None: good)
    assert checks.main([]) == code
    said = capsys.readouterr().out
    for line in lines:
        assert line in said


def steps(missing: list[checks.Missing], long: slices.Slice = slices.NONE):
    found = checks.all_steps(missing, long)
    return {step.name: step.command for step in found if "pytest" in step.command}


def test_only_what_cannot_run_is_left_out() -> None:
    found = steps([BROWSER])
    for name in ("tests of pages and starts", "tests of the product"):
        assert found[name][-1] == "--ignore=tests/browser"
    for name in ("tests of the parts", "tests with Spark"):
        assert not [word for word in found[name] if "ignore" in word]


def test_files_of_a_missing_server_are_left_out_where_they_lie() -> None:
    found = steps([SERVER])
    assert found["tests of the parts"][-1] == "tests/integration"
    assert found["tests with Spark"][-1] == "--ignore=tests/spark/test_mariadb.py"
    assert found["tests of the product"][-1] == "tests/fault"


def test_one_process_has_all_that_needs_the_product() -> None:
    with_it = [words for words in steps([]).values() if "product" in words]
    assert [words[-3:] for words in with_it] == [list(checks.PRODUCT)]
    without = [words for words in steps([]).values() if "not product" in words]
    assert [words[-3:] for words in without] == [list(checks.PRODUCT)]


@pytest.mark.parametrize("long", [slices.NONE, slices.Slice(3, 12), slices.ALL])
def test_every_step_takes_the_same_long_tests(long) -> None:
    assert all(f"--long={long}" in words for words in steps([], long).values())


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
    listed = {*checks.PARTS, *checks.SPARK, *checks.PRODUCT}
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


def test_steps_run_side_by_side_and_each_of_them_counts(
    monkeypatch, tmp_path, capsys
) -> None:
    """Each of two waits for a file that another makes: the first for the last."""
    monkeypatch.setattr(checks, "SAID", tmp_path / "said")
    meet = "touch {mine}; while [ ! -e {other} ]; do sleep 0.01; done; echo met {mine}"

    def step(mine: str, other: str) -> checks.Step:
        places = {"mine": tmp_path / mine, "other": tmp_path / other}
        return checks.Step(mine, ["sh", "-c", meet.format(**places)])

    told = "kept\nE   it is 2\nFAILED tests/a.py::b - it is 2\n"
    bad = checks.Step("bad one", ["sh", "-c", f"printf '{told}'; exit 3"])
    last = checks.Step("last", ["sh", "-c", "echo after it"])
    steps = [step("a", "b"), bad, last, step("b", "a")]
    assert checks.run_side_by_side(steps) == ["bad one"]
    said = capsys.readouterr().out
    for words in (f"met {tmp_path / 'a'}", f"met {tmp_path / 'b'}", "after it"):
        assert words in said
    assert f"{told}-- bad one: FAILED" in said
    assert (tmp_path / "said" / "bad-one.log").read_text() == told
    assert checks.reasons("bad one") == [
        "FAILED tests/a.py::b - it is 2",
        "E   it is 2",
    ]


def test_the_slice_of_a_commit_is_said_with_what_repeats_it(capsys) -> None:
    checks.name_slice(slices.Slice(3, 12))
    said = capsys.readouterr().out
    assert "slice 3/12 of this commit" in said
    assert "-m pytest --long=3/12 -m long tests/unit" in said
    checks.name_slice(slices.ALL)
    assert capsys.readouterr().out == ""
