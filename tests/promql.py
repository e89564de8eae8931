"""As much of PromQL as our panels and rules use: read, or refused. For tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w:]))|(?P<word>[A-Za-z_:][\w:]*)"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[\d+[smhd]\])"""
    r"""|(?P<sign>=~|!~|==|!=|>=|<=|[-+*/%<>=(){},]))"""
)
AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk"}
# name -> how many arguments
FUNCTIONS = {"histogram_quantile": 2, "rate": 1, "increase": 1, "absent": 1}
OPERATORS = {
    "+",
    "-",
    "*",
    "/",
    "%",
    ">",
    "<",
    ">=",
    "<=",
    "==",
    "!=",
    "and",
    "or",
    "unless",
}
NEEDS_RANGE = {"rate", "increase"}


class BadExpressionError(ValueError):
    pass


@dataclass
class Selector:
    """labels  it is matched or summed by; is_range  "[5m]" follows."""

    name: str
    labels: set[str] = field(default_factory=set)
    is_range: bool = False


def selectors(text: str) -> list[Selector]:
    """What an expression asks for; BadExpressionError when it is not one."""
    reader = _Reader(_tokens(text))
    found = reader.expression()
    if reader.left:
        raise BadExpressionError(f"{reader.left[:3]} is too much in {text}")
    return found


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        hit = TOKEN.match(text, at)
        if hit is None:
            raise BadExpressionError(f"cannot read {text[at:]!r}")
        found.append(hit[0].strip())
        at = hit.end()
    return found


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens

    def peek(self) -> str:
        return self.left[0] if self.left else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise BadExpressionError(f"expected {wanted or 'more'}, not {token!r}")
        return self.left.pop(0)

    def expression(self) -> list[Selector]:
        found = self.term()
        while self.peek() in OPERATORS:
            self.take()
            found += self.term()
        return found

    def term(self) -> list[Selector]:
        token = self.take()
        if token[0].isdigit():
            return []
        if token == "(":
            found = self.expression()
            self.take(")")
            return found
        if token in AGGREGATIONS:
            return self.aggregation()
        if self.peek() == "(":
            return self.call(token)
        if not re.fullmatch(r"[A-Za-z_:][\w:]*", token):
            raise BadExpressionError(f"{token!r} cannot begin a term")
        return [self.selector(token)]

    def aggregation(self) -> list[Selector]:
        labels = self.by()
        self.take("(")
        found = self.expression()
        self.take(")")
        labels |= self.by()
        for selector in found:
            if selector.is_range:
                raise BadExpressionError(f"{selector.name}: a range is not summed")
            selector.labels |= labels
        return found

    def by(self) -> set[str]:
        if self.peek() != "by":
            return set()
        self.take()
        self.take("(")
        labels = {self.take()}
        while self.peek() == ",":
            self.take()
            labels.add(self.take())
        self.take(")")
        return labels

    def call(self, name: str) -> list[Selector]:
        self.take("(")
        arguments = [self.expression()]
        while self.peek() == ",":
            self.take()
            arguments.append(self.expression())
        self.take(")")
        if FUNCTIONS.get(name) != len(arguments):
            raise BadExpressionError(f"{name} with {len(arguments)} arguments")
        found = [selector for each in arguments for selector in each]
        if any(s.is_range != (name in NEEDS_RANGE) for s in found):
            raise BadExpressionError(f"{name}: a range where none belongs, or none")
        for selector in found:
            selector.is_range = False
        if name == "histogram_quantile":
            for selector in found:
                selector.labels.add("le")
        return found

    def selector(self, name: str) -> Selector:
        found = Selector(name)
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                found.labels.add(self.take())
                if self.take() not in {"=", "=~", "!=", "!~"}:
                    raise BadExpressionError(f"{name}: no matcher")
                if not self.take().startswith('"'):
                    raise BadExpressionError(f"{name}: a value is quoted")
                if self.peek() == ",":
                    self.take()
            self.take("}")
        if self.peek().startswith("["):
            self.take()
            found.is_range = True
        return found
