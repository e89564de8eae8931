"""YAML in and out: plain values only, every one with the line it is on. Pure.

Refuses what makes such files surprising: aliases, tags, keys given twice, dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from core.errors import InvalidRequest
from core.json_values import escape

LARGEST = 64 * 2**20
_PLAIN = (str, bool, int, float, type(None))


@dataclass(frozen=True, slots=True)
class Text:
    """`lines`: JSON pointer → line, counted from 1."""

    data: Any
    lines: Mapping[str, int]

    def line_of(self, pointer: str) -> int:
        """The line of the nearest thing at or above `pointer`."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines.get(pointer, 1)


def read_text(text: str) -> Text:
    """InvalidRequest with the line for what is no such document."""
    if len(text) > LARGEST:
        raise InvalidRequest(f"the file is larger than {LARGEST} characters")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[str, int] = {}
        data = None if node is None else _value(loader, node, "", lines)
    except yaml.YAMLError as error:
        raise InvalidRequest(_reason(error), code="not_yaml") from None
    except RecursionError:
        raise InvalidRequest("the file is nested too deeply", code="not_yaml") from None
    finally:
        loader.dispose()
    return Text(data, lines)


def write_text(data: Mapping[str, Any]) -> str:
    """The same text for the same data, one value a line, so that it diffs well."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _refusal("aliases (*name) are not read here: write it out", mark)
        return super().compose_node(parent, index)


# What a plain word means: YAML 1.2's few, so that `on`, `no` and dates are words.
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|", "~n"),
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), [*_first, ""]
    )


class _Dumper(yaml.SafeDumper):
    """Quotes what any YAML reader could take for something else, except on and off."""

    yaml_implicit_resolvers = {
        first: found
        for first, found in yaml.SafeDumper.yaml_implicit_resolvers.items()
        if first not in {"o", "O"}
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_list(self, data: Any) -> yaml.SequenceNode:
        """Lists of plain values stay on their line."""
        is_plain = all(isinstance(item, _PLAIN) for item in data)
        return self.represent_sequence("tag:yaml.org,2002:seq", data, is_plain)


_Dumper.add_representer(list, _Dumper.represent_list)


def _value(loader: _Loader, node: yaml.Node, at: str, lines: dict[str, int]) -> Any:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, at, lines)
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(loader, item, f"{at}/{index}", lines)
            for index, item in enumerate(node.value)
        ]
    found = loader.construct_object(node)
    if type(found) not in _PLAIN:
        raise _refusal(f"'{node.value}' is no text: put it in quotes", node.start_mark)
    return found


def _mapping(
    loader: _Loader, node: yaml.MappingNode, at: str, lines: dict[str, int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _value(loader, key_node, at, dict(lines))
        if not isinstance(key, str):
            raise _refusal(f"the key {key!r} needs quotes", key_node.start_mark)
        if key in found:
            raise _refusal(f"'{key}' is given twice", key_node.start_mark)
        below = f"{at}/{escape(key)}"
        found[key] = _value(loader, value_node, below, lines)
        lines[below] = key_node.start_mark.line + 1
    return found


def _refusal(what: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, what, mark)


def _reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "this is not YAML"
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
