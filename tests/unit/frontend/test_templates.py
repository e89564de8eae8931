"""Templates are read by people, too: no line is longer than a screen is wide."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[3] / "frontend" / "templates"
LONGEST = 120


def test_no_line_is_longer_than_a_screen() -> None:
    long = [
        f"{path.relative_to(TEMPLATES)}:{number}"
        for path in sorted(TEMPLATES.rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST
    ]
    assert long == []
