"""What is wrong in a request for an onboarding, all of it at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.errors import InvalidRequest
from core.json_values import escape
from core.sentences import Sentence, as_sentence, filled, joined

MOST_TOLD = 1000


@dataclass(slots=True)
class Mistakes:
    """What is wrong in a request, told all at once."""

    found: list[tuple[str, str, str, str]] = field(default_factory=list)

    def add(
        self, pointer: str, detail: str, *, code: str, hint: str = "", **named: object
    ) -> None:
        self.found.append((pointer, filled(detail, named), code, hint))

    def take(self, error: InvalidRequest) -> None:
        """An error about a table (facts.table, facts.field), or with pointers."""
        given = error.facts.get("errors")
        if not isinstance(given, list):
            table, name = error.facts.get("table", ""), error.facts.get("field", "")
            pointer = f"/tables/{escape(str(table))}/{name}"
            given = [{"pointer": pointer, "detail": error.message}]
        for one in given:
            pointer, detail = str(one["pointer"]), as_sentence(one["detail"])
            self.add(pointer, detail, code=error.code, hint=error.hint)

    def tell(self) -> None:
        """InvalidRequest when there is one; the first speaks for all."""
        if not self.found:
            return
        _, detail, code, _ = self.found[0]
        more = len(self.found) - 1
        hints = dict.fromkeys(hint for *_, hint in self.found if hint)
        raise InvalidRequest(
            Sentence(
                "%(first)s (and %(more)s more)", first=as_sentence(detail), more=more
            )
            if more
            else detail,
            code=code,
            hint=joined(list(hints)[:3]),
            facts={
                "errors": [
                    {"pointer": pointer, "detail": as_sentence(said)}
                    for pointer, said, _, _ in self.found[:MOST_TOLD]
                ]
            },
        )
