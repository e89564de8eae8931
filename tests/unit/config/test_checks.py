"""What `make test` says when a part of the machine is missing."""

from __future__ import annotations

import pytest

from config.parts import checks

BROWSER = checks.Missing(package="chromium", tests="tests/browser")


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
                "tests of the parts, tests of the product"
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
    monkeypatch.setattr(checks, "run", lambda step: good)
    assert checks.main() == code
    said = capsys.readouterr().out
    for line in lines:
        assert line in said


def test_only_what_cannot_run_is_left_out() -> None:
    parts, product = checks.test_steps([BROWSER])
    assert "--ignore=tests/browser" in product.command
    assert not [one for one in parts.command if "ignore" in one]


def test_every_directory_of_tests_is_run() -> None:
    tests = checks.ROOT / "tests"
    holding = {p.relative_to(tests).parts[0] for p in tests.rglob("test_*.py")}
    listed = {*checks.PARTS, *checks.WHOLE}
    assert {f"tests/{name}" for name in holding} == listed


def test_apt_may_be_forbidden(monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_NO_APT", "1")
    assert not checks.may_install()
