"""`make siege`, after `make demo`: what well-behaved clients feel while others attack.

SLUICE_SIEGE_MINUTES (60) is how long; a quarter of it at most is without attackers, half
before and half after. The figures go into siege.json of the product's home after each
part, so that a siege that is ended by hand leaves those it has.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.product import Product
from tests.siege.attackers import Siege
from tests.siege.friends import Noted, ask_for
from tests.siege.gateway_watch import GatewayWatch, Seen
from tests.siege.target import Target, target_at

FRIENDS = 8
MOST_RATIO = 3.0
PEACE_SECONDS = 120.0
FEWEST = 20  # statements of a part; of fewer, a p95 says nothing
SHOWN_ERRORS = 20


class Report:
    """The figures so far, on disk."""

    def __init__(self, home: Path) -> None:
        self.path = home / "siege.json"
        self.figures: dict[str, Any] = {"began": datetime.now(UTC).isoformat()}

    def add(self, **figures: Any) -> None:
        self.figures |= figures
        self.path.write_text(json.dumps(self.figures, indent=1) + "\n")


def part(noted: Noted) -> dict[str, Any]:
    return {
        "statements": len(noted.seconds),
        "logins": len(noted.logins),
        "errors": len(noted.errors),
        "p50_ms": round(noted.p50() * 1000) if noted.seconds else None,
        "p95_ms": round(noted.p95() * 1000) if len(noted.seconds) > 1 else None,
    }


def gateway(seen: Seen) -> dict[str, Any]:
    return {
        "engine_deaths": seen.engine_deaths,
        "loop_pings": seen.pings,
        "longest_loop_wait_ms": round(seen.longest_wait * 1000),
        "largest_loop_step_ms_at_most": round(seen.longest_busy * 1000),
    }


def faults_of(parts: dict[str, Noted], stuck: list[str], ratio: float) -> list[str]:
    """Why the siege is lost; empty when it is not."""
    lost = [
        f"{name}: {len(noted.errors)} errors of good clients"
        for name, noted in parts.items()
        if noted.errors
    ]
    lost += [
        f"{name}: only {len(noted.seconds)} statements of good clients"
        for name, noted in parts.items()
        if len(noted.seconds) < FEWEST
    ]
    if ratio > MOST_RATIO:
        lost.append(f"p95 under attack is {ratio:.2f} × that of peace (≤ {MOST_RATIO})")
    if stuck:
        lost.append(f"attackers that never got an end: {', '.join(sorted(stuck))}")
    return lost


def besiege(target: Target, report: Report, seconds: float) -> list[str]:
    """Peace, siege, peace; why it is lost."""
    peace = min(PEACE_SECONDS, seconds / 8)
    left_out = set(os.environ.get("SLUICE_SIEGE_WITHOUT", "").split())
    ask_for(target, FRIENDS, 10)  # an engine starts
    parts = {"before": ask_for(target, FRIENDS, peace)}
    report.add(before=part(parts["before"]))
    with GatewayWatch(report.path.parent) as seen:
        with Siege(target, without=left_out) as siege:
            parts["under"] = ask_for(target, FRIENDS, seconds - 2 * peace)
            report.add(under=part(parts["under"]), gateway=gateway(seen))
        report.add(gateway=gateway(seen))
    parts["after"] = ask_for(target, FRIENDS, peace)
    ratio = ratio_of(parts)
    lost = faults_of(parts, siege.stuck, ratio)
    report.add(
        after=part(parts["after"]),
        ratio_p95=round(ratio, 2),
        acts=dict(siege.acts),
        answers=dict(siege.answers),
        errors=[text for one in parts.values() for text in one.errors][:SHOWN_ERRORS],
        lost=lost,
    )
    return lost


def ratio_of(parts: dict[str, Noted]) -> float:
    """p95 under attack over that of peace; 0 where there is none, which is a fault."""
    if min(len(one.seconds) for one in parts.values()) < FEWEST:
        return 0.0
    return parts["under"].p95() / ((parts["before"].p95() + parts["after"].p95()) / 2)


def main(home: Path) -> int:
    minutes = float(os.environ.get("SLUICE_SIEGE_MINUTES", "60"))
    product = Product(home=home, connection={})
    product.reload()
    report = Report(home)
    report.add(minutes=minutes)
    lost = besiege(target_at(product), report, minutes * 60)
    sys.stdout.write(report.path.read_text())
    verdict = f"LOST: {'; '.join(lost)}" if lost else "HELD: no error, p95 in bounds"
    sys.stdout.write(f"siege {verdict} ({report.path})\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
