"""Collects every sentence that pages translate, for the catalogue and its test.

Templates tell theirs as compiled nodes, Python as calls of gettext, and tables of
constants (actions, states) that templates translate when they show them.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from django.template.base import FilterExpression, Node, Template, Variable
from django.template.loader import get_template
from django.templatetags.i18n import BlockTranslateNode, TranslateNode

from catalog.api import problems
from catalog.sources.registry import KINDS
from core.jobs import JOB
from core.jobs.moves import JobKind, names_of
from frontend.forms.sources import label_of
from frontend.pages import NOT_CONFIRMED
from frontend.reading import health
from frontend.templatetags.states import LOOKS, titles_of_jobs
from ingest.actions.registry import ACTIONS
from ingest.maintenance.table_action import TableAction
from ingest.models.states import PIPELINE

HERE = Path(__file__).parent
PACKAGES = (
    "catalog",
    "config/rule_checks.py",
    "config/samples.py",
    "core",
    "gateway",
    "ingest",
)
CALLS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "Sentence"}
# What of these modules are texts of three words is for programs, logs and documents, or
# is translated where it is put together. Everywhere else it is a sentence for people: a
# constant, or a `Sentence` with parameters.
FOR_OTHERS = (
    "*/migrations",
    "*/management",
    "catalog/access/*_spec.py",
    "catalog/access/policy*.py",
    "catalog/access/proofs.py",
    "catalog/access/scope.py",
    "catalog/api/*replies.py",
    "catalog/api/documents.py",
    "catalog/api/gauges.py",
    "catalog/api/grants.py",
    "catalog/api/middleware.py",
    "catalog/api/serializers.py",
    "catalog/discovery/services.py",
    "catalog/schema",
    "catalog/selectors",
    "catalog/sources/*/columns.py",
    "catalog/sources/*/connect.py",
    "catalog/sources/*/errors.py",
    "catalog/sources/*/privileges.py",
    "catalog/sources/*/types.py",
    "catalog/sources/errors.py",
    "catalog/sources/kinds.py",
    "catalog/sources/registry.py",
    "core/control_channel",
    "core/jobs/__init__.py",
    "gateway/client_connection.py",
    "gateway/api/replies.py",
    "gateway/control.py",
    "gateway/engines/launch.py",
    "gateway/engines/lifecycle.py",
    "gateway/faults.py",
    "gateway/handler.py",
    "gateway/hs2",
    "gateway/http_transport.py",
    "gateway/internal.py",
    "gateway/metadata.py",
    "gateway/metrics.py",
    "gateway/operation.py",
    "gateway/peer.py",
    "gateway/server.py",
    "ingest/actions",
    "ingest/alerts/metrics.py",
    "ingest/api",
    "ingest/driver/capture/jdbc.py",
    "ingest/driver/main.py",
    "ingest/driver/serve.py",
    "ingest/driver/sessions.py",
    "ingest/driver_host/host.py",
    "ingest/follower/__main__.py",
    "ingest/followers_host",
    "ingest/jobs/events.py",
    "ingest/jobs/kinds.py",
    "ingest/maintenance/repair_actions.py",
    "ingest/maintenance/table_action.py",
    "ingest/models",
    "ingest/pipelines/gone_shards.py",
    "ingest/pipelines/metrics.py",
    "ingest/sources/*/dialect.py",
    "ingest/sources/*/fingerprint.py",
    "ingest/sources/*/log/connection.py",
    "ingest/sources/dialect.py",
    "ingest/sources/failures.py",
    "ingest/sources/mariadb/log/binlog.py",
    "ingest/sources/mariadb/log/reader.py",
    "ingest/sources/mariadb/log/rows.py",
    "ingest/sources/mariadb/log/table_map.py",
    "ingest/sources/postgresql/log/pgoutput.py",
    "ingest/sources/postgresql/log/publications.py",
    "ingest/sources/postgresql/snapshot.py",
)
_SENTENCE = re.compile(r"[A-Za-z]+,? [a-z]+,? [a-z]")
_NO_SENTENCE = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|WITH|DELETE|FROM|AND|ALTER|SET)\b| -- |\bk string, "
)
# Only programmers see their texts.
_UNSEEN = {
    "RuntimeError",
    "TypeError",
    "ValueError",
    "AssertionError",
    "NotImplementedError",
}
_MAYBE_CALLS = re.compile(r"\b(_|n?gettext(_lazy)?|Sentence)\(|%\(")
PARAMETER = re.compile(r"%\((\w+)\)")
_MARKED = re.compile(r'_\("([^"]+)"\)')


@dataclass(frozen=True, slots=True)
class Message:
    """plural is "" for a message without one."""

    text: str
    plural: str = ""


@functools.cache
def messages() -> dict[Message, list[str]]:
    """Return each message with the files that show it; read once."""
    found: dict[Message, list[str]] = {}
    for place, message in (
        *_of_templates(),
        *_of_python(),
        *_of_tables(),
        *_of_constants(),
    ):
        places = found.setdefault(message, [])
        if place not in places:
            places.append(place)
    return found


def _of_templates() -> Iterator[tuple[str, Message]]:
    root = HERE / "templates"
    for path in sorted(root.rglob("*.html")):
        name = str(path.relative_to(root))
        template: Template = get_template(name).template  # type: ignore[attr-defined]
        for node in _nodes(template.nodelist):
            message = _of_node(node)
            if message:
                yield name, message
        for text in _MARKED.findall(path.read_text()):
            yield name, Message(text)


def _nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Every node, those within component blocks too, which Django does not walk."""
    for node in nodes:
        yield node
        for name in {*node.child_nodelists, "nodelist"}:
            yield from _nodes(getattr(node, name, ()))


def _of_node(node: Any) -> Message | None:
    if isinstance(node, BlockTranslateNode):
        singular, _ = node.render_token_list(node.singular)
        plural = node.render_token_list(node.plural)[0] if node.plural else ""
        if node.trimmed:
            singular, plural = _trimmed(singular), _trimmed(plural)
        return Message(singular, plural)
    if isinstance(node, TranslateNode):
        expression: FilterExpression = node.filter_expression
        value = expression.var
        is_text = isinstance(value, Variable) and isinstance(value.literal, str)
        text = value.literal if is_text else value
        return Message(text) if isinstance(text, str) else None
    return None


def _trimmed(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines())


def _files_of_python() -> list[Path]:
    """Of the pages, and of the packages whose sentences they show as they come."""
    return sorted({*HERE.rglob("*.py"), *_files_of(*PACKAGES)})


def _files_of(*patterns: str) -> Iterator[Path]:
    for place in (one for pattern in patterns for one in HERE.parent.glob(pattern)):
        yield from place.rglob("*.py") if place.is_dir() else [place]


def _place(path: Path) -> str:
    root = HERE if path.is_relative_to(HERE) else HERE.parent
    return str(path.relative_to(root))


def _of_python() -> Iterator[tuple[str, Message]]:
    for path in _files_of_python():
        text = path.read_text()
        if not _MAYBE_CALLS.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in CALLS:
                plain = [text for one in node.args[:2] for text in _literals(one)]
            else:
                plain = list(with_parameters(node))
            if name.startswith("n") and name in CALLS and plain:
                yield _place(path), Message(*plain)
                continue
            for one in plain:
                yield _place(path), Message(one)


def with_parameters(call: ast.Call) -> Iterator[str]:
    """A message, or an error's hint, where what it names is given beside it."""
    given = {keyword.arg for keyword in call.keywords}
    hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
    for one in (*call.args, *hints):
        for text in _literals(one):
            named = set(PARAMETER.findall(text))
            if named and named <= given:
                yield text


def _literals(node: ast.expr) -> Iterator[str]:
    for one in _branches(node):
        if isinstance(one.value, str):
            yield one.value


def shown_files() -> list[Path]:
    """Modules whose sentences are constants."""
    return sorted({*_files_of(*PACKAGES)} - {*_files_of(*FOR_OTHERS)})


def _of_constants() -> Iterator[tuple[str, Message]]:
    for path in shown_files():
        tree = ast.parse(path.read_text())
        for node in (*shown_texts(tree), *_hints(tree)):
            if isinstance(node, ast.Constant):
                yield _place(path), Message(str(node.value))


def _hints(tree: ast.Module) -> Iterator[ast.Constant]:
    """What to do, in however few words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            yield from (
                one
                for one in _branches(node.value)
                if isinstance(one.value, str) and " " in one.value
            )


def _branches(node: ast.expr) -> Iterator[ast.Constant]:
    """Of both, where one of two is chosen."""
    if isinstance(node, ast.IfExp):
        yield from (*_branches(node.body), *_branches(node.orelse))
    elif isinstance(node, ast.Constant):
        yield node


def shown_texts(tree: ast.Module) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Texts of three words and more for people that no call of gettext has."""
    apart: set[ast.AST] = set()
    for node in ast.walk(tree):
        if _is_apart(node) or (isinstance(node, ast.JoinedStr) and node not in apart):
            apart |= set(ast.walk(node)) - {node}
    for node in ast.walk(tree):
        if node in apart or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        text = " x ".join(each for each in texts if isinstance(each, str))
        if _SENTENCE.search(text) and not _NO_SENTENCE.search(text):
            yield node


def _is_apart(node: ast.AST) -> bool:
    """Docstrings, assertions, lines of logs, what programmers see, what is marked."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.FunctionDef) and node.name == "__str__":
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in CALLS | _UNSEEN
    if not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    is_log = isinstance(owner, ast.Name) and owner.id == "log"
    return is_log or node.func.attr == "OperationalError"


def _of_tables() -> Iterator[tuple[str, Message]]:
    for word in (*titles_of_jobs().values(), *(look.word for look in LOOKS.values())):
        yield "templatetags/states.py", Message(word)
    for name in {PIPELINE.name, JOB.name, *PIPELINE.states, *JOB.states}:
        yield "ingest/models/states.py", Message(name)
    for name in names_of(JobKind):
        yield "templatetags/states.py", Message(name)
    yield "pages.py", Message(NOT_CONFIRMED)
    for title in sorted(problems.TITLES):
        yield "catalog/api/problems.py", Message(title)
    yield from _of_kinds()
    for action in ACTIONS.values():
        for text in _shown(action):
            yield "ingest/actions", Message(text)
    for title in (
        *health.TITLES.values(),
        *health.STEPS.values(),
        *astuple(health.GO_ON),
    ):
        if isinstance(title, str) and title[:1].isupper():
            yield "reading/health.py", Message(title)


def _of_kinds() -> Iterator[tuple[str, Message]]:
    for kind in KINDS.values():
        yield "catalog/sources", Message(kind.database_means)
        for option in kind.options:
            yield "catalog/sources", Message(option.meaning)
            yield "catalog/sources", Message(label_of(option))


def _shown(action: TableAction) -> Iterator[str]:
    yield from (action.title, action.does, action.blocks, action.undo, *action.effects)
    if action.report:
        yield action.report
    for each in action.request.fields:
        if each.label:
            yield from (each.label, *(label for _, label in each.choices))
