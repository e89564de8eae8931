"""`make siege`, after `make demo`: what well-behaved clients feel while others attack.

SLUICE_SIEGE_MINUTES (60) is how long; a quarter of it at most is without attackers, half
before and half after.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.product import Product
from tests.siege.attackers import Siege
from tests.siege.friends import Noted, ask_for
from tests.siege.target import target_at

FRIENDS = 8
MOST_RATIO = 3.0
PEACE_SECONDS = 120.0


def figures(noted: Noted) -> dict[str, object]:
    return {
        "statements": len(noted.seconds),
        "logins": len(noted.logins),
        "errors": len(noted.errors),
        "p50_ms": round(noted.p50() * 1000),
        "p95_ms": round(noted.p95() * 1000),
    }


def main(home: Path) -> int:
    seconds = float(os.environ.get("SLUICE_SIEGE_MINUTES", "60")) * 60
    peace = min(PEACE_SECONDS, seconds / 8)
    product = Product(home=home, connection={})
    product.reload()
    target = target_at(product)
    ask_for(target, FRIENDS, 10)  # an engine starts
    before = ask_for(target, FRIENDS, peace)
    left_out = set(os.environ.get("SLUICE_SIEGE_WITHOUT", "").split())
    with Siege(target, without=left_out) as siege:
        under = ask_for(target, FRIENDS, seconds - 2 * peace)
    after = ask_for(target, FRIENDS, peace)
    without = (before.p95() + after.p95()) / 2
    told = {
        "before": figures(before),
        "under": figures(under),
        "after": figures(after),
        "ratio_p95": round(under.p95() / without, 2),
        "acts": dict(siege.acts),
        "answers": dict(siege.answers),
        "errors": (before.errors + under.errors + after.errors)[:20],
    }
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 1 if told["errors"] or under.p95() > MOST_RATIO * without else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
