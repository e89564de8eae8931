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
PACKAGES = ("catalog", "core", "gateway", "ingest")
CALLS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "Sentence"}
# Where each sentence for people is a constant, or a `Sentence` with parameters.
MOVED = (
    "config/samples.py",
    "core/advance.py",
    "core/jobs/moves.py",
    "core/jobs/pages.py",
    "gateway/engines/channel.py",
    "gateway/engines/session_channels.py",
    "gateway/engines/thrift_session.py",
    "gateway/session_registry.py",
    "gateway/session_service.py",
    "gateway/api/downloads.py",
    "gateway/api/statements.py",
    "gateway/client.py",
    "gateway/engines/settable.py",
    "gateway/engines/spark_thrift.py",
    "gateway/engines/supervisor.py",
    "gateway/fair.py",
    "gateway/response_memory_limit.py",
    "gateway/result_reader.py",
    "gateway/services.py",
    "gateway/session.py",
    "gateway/session_engine.py",
    "gateway/settable.py",
    "gateway/statement_run.py",
    "gateway/statement_service.py",
    "gateway/store.py",
    "gateway/work_queue.py",
    "gateway/xlsx.py",
    "ingest/alerts/capture.py",
    "ingest/alerts/delivery.py",
    "ingest/alerts/lag.py",
    "ingest/alerts/mail.py",
    "ingest/alerts/messages.py",
    "ingest/alerts/mutes.py",
    "ingest/alerts/rules.py",
    "ingest/alerts/selectors.py",
    "ingest/alerts/stalled.py",
    "ingest/alerts/store.py",
    "ingest/alerts/targets.py",
    "ingest/alerts/triggers.py",
    "ingest/alerts/webhook.py",
    "ingest/jobs/leases.py",
    "ingest/jobs/queue.py",
    "ingest/jobs/reconcile.py",
    "catalog/api/access.py",
    "catalog/api/etag.py",
    "catalog/api/idempotency.py",
    "catalog/api/instance.py",
    "catalog/api/people.py",
    "catalog/api/problems.py",
    "catalog/api/tables.py",
    "catalog/api/user_concurrency.py",
    "catalog/api/views.py",
    "catalog/access/authentication.py",
    "catalog/access/enforcement.py",
    "catalog/access/existence.py",
    "catalog/access/external_users.py",
    "catalog/access/grants.py",
    "catalog/access/groups.py",
    "catalog/access/invitations.py",
    "catalog/access/ldap_directory.py",
    "catalog/access/ldap_login.py",
    "catalog/access/oidc_login.py",
    "catalog/access/oidc_provider.py",
    "catalog/access/own_password.py",
    "catalog/access/rules.py",
    "catalog/access/tokens.py",
    "catalog/access/users.py",
    "catalog/labels.py",
    "catalog/names.py",
    "catalog/datasources.py",
    "catalog/health.py",
    "catalog/discovery/again.py",
    "catalog/saved_queries.py",
    "catalog/secrets.py",
    "catalog/discovery/choosing.py",
    "catalog/discovery/probe.py",
    "catalog/discovery/store.py",
    "catalog/discovery/turns.py",
    "catalog/networks.py",
    "catalog/sources/access.py",
    "catalog/sources/mariadb/log.py",
    "catalog/sources/mariadb/probe.py",
    "catalog/sources/postgresql/log.py",
    "catalog/sources/postgresql/probe.py",
    "catalog/sources/steps.py",
    "config/rule_checks.py",
    "ingest/contract/driver_size.py",
    "ingest/contract/job.py",
    "ingest/contract/members.py",
    "ingest/contract/positions.py",
    "ingest/contract/records.py",
    "ingest/contract/segments.py",
    "ingest/contract/source_positions.py",
    "ingest/driver_host/attempts.py",
    "ingest/driver_host/cluster.py",
    "ingest/driver_host/commands.py",
    "ingest/hosting.py",
    "ingest/driver/apply",
    "ingest/driver/capture/added_columns.py",
    "ingest/driver/capture/chunking.py",
    "ingest/driver/capture/counting.py",
    "ingest/driver/capture/gate.py",
    "ingest/driver/capture/keys.py",
    "ingest/driver/capture/log_load.py",
    "ingest/driver/capture/reading.py",
    "ingest/driver/capture/same_table.py",
    "ingest/driver/capture/snapshot.py",
    "ingest/driver/capture/source_check.py",
    "ingest/driver/capture/source_fingerprint.py",
    "ingest/driver/capture/stall_timeout.py",
    "ingest/driver/capture/timestamp.py",
    "ingest/driver/leave_log.py",
    "ingest/driver/run.py",
    "ingest/driver/secrets.py",
    "ingest/driver/table_services",
    "ingest/follower/follower.py",
    "ingest/lake/chain.py",
    "ingest/lake/changes.py",
    "ingest/lake/commits.py",
    "ingest/lake/fence.py",
    "ingest/lake/files.py",
    "ingest/lake/hudi/identity.py",
    "ingest/lake/hudi/options.py",
    "ingest/lake/place.py",
    "ingest/lake/records.py",
    "ingest/lake/s3/client.py",
    "ingest/lake/s3/objects.py",
    "ingest/lake/segment_files.py",
    "ingest/lake/staging.py",
    "ingest/lake/upkeep.py",
    "ingest/planning",
    "ingest/maintenance/buckets.py",
    "ingest/maintenance/compact_job.py",
    "ingest/maintenance/compaction_drivers.py",
    "ingest/maintenance/descriptions.py",
    "ingest/maintenance/duplicates.py",
    "ingest/maintenance/health_collector.py",
    "ingest/maintenance/impact_preview.py",
    "ingest/maintenance/merging.py",
    "ingest/maintenance/plan.py",
    "ingest/maintenance/repair_job.py",
    "ingest/maintenance/repair_previews.py",
    "ingest/maintenance/repairs.py",
    "ingest/maintenance/resizing.py",
    "ingest/maintenance/rewinding.py",
    "ingest/maintenance/score.py",
    "ingest/maintenance/storage_check.py",
    "ingest/maintenance/verdict.py",
    "ingest/pipelines/adoption.py",
    "ingest/pipelines/adoption_rules.py",
    "ingest/pipelines/apply_reports.py",
    "ingest/pipelines/capture_change.py",
    "ingest/pipelines/capture_status.py",
    "ingest/pipelines/change_stream.py",
    "ingest/pipelines/compaction_plans.py",
    "ingest/pipelines/deferred_onboardings.py",
    "ingest/pipelines/drafting.py",
    "ingest/pipelines/followers.py",
    "ingest/pipelines/lake_reconcile.py",
    "ingest/pipelines/load_job.py",
    "ingest/pipelines/log_laggards.py",
    "ingest/pipelines/log_tables.py",
    "ingest/pipelines/needed_resync.py",
    "ingest/pipelines/onboarding.py",
    "ingest/pipelines/plan_overrides.py",
    "ingest/pipelines/policies/policy.py",
    "ingest/pipelines/policies/schedule.py",
    "ingest/pipelines/policies/store.py",
    "ingest/pipelines/policy_levels.py",
    "ingest/pipelines/rebuilding.py",
    "ingest/pipelines/removal.py",
    "ingest/pipelines/requests.py",
    "ingest/pipelines/samples.py",
    "ingest/pipelines/sampling.py",
    "ingest/pipelines/schema_approval.py",
    "ingest/pipelines/schema_diff.py",
    "ingest/pipelines/schema_drift.py",
    "ingest/pipelines/selectors.py",
    "ingest/pipelines/shard_joins.py",
    "ingest/pipelines/shard_matters.py",
    "ingest/pipelines/shards.py",
    "ingest/pipelines/sync_job.py",
    "ingest/pipelines/table_commands.py",
    "ingest/pipelines/table_facts.py",
    "ingest/pipelines/table_job.py",
    "ingest/pipelines/transitions.py",
    "ingest/sources/fingerprint.py",
    "ingest/sources/mariadb/connection.py",
    "ingest/sources/mariadb/log/fail_over.py",
    "ingest/sources/mariadb/log/opening.py",
    "ingest/sources/mariadb/log/places.py",
    "ingest/sources/mariadb/log/tables.py",
    "ingest/sources/mariadb/log/values.py",
    "ingest/sources/mariadb/reader.py",
    "ingest/sources/port.py",
    "ingest/sources/postgresql/connection.py",
    "ingest/sources/postgresql/log/new_slot.py",
    "ingest/sources/postgresql/log/opening.py",
    "ingest/sources/postgresql/log/release.py",
    "ingest/sources/postgresql/log/slot.py",
    "ingest/sources/postgresql/log/tables.py",
    "ingest/sources/postgresql/log/transactions.py",
    "ingest/sources/postgresql/log/values.py",
    "ingest/sources/postgresql/reader.py",
    "ingest/sources/statements.py",
)
_SENTENCE = re.compile(r"[A-Za-z]+,? [a-z]+,? [a-z]")
_NO_SENTENCE = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|WITH|DELETE|FROM|AND|ALTER|SET)\b| -- |\bk string, "
)
# What only programmers see.
_FOR_PROGRAMS = {"__str__", "as_markdown", "_cases_in_markdown"}
_UNSEEN = {
    "RuntimeError",
    "TypeError",
    "ValueError",
    "AssertionError",
    "NotImplementedError",
}
_MAYBE_CALLS = re.compile(r"\b(_|n?gettext(_lazy)?|Sentence)\(")
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
        *_of_moved(),
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
    roots = [HERE, *(HERE.parent / name for name in PACKAGES)]
    found = {path for root in roots for path in root.rglob("*.py")}
    return sorted(found.union(moved_files()))


def _place(path: Path) -> str:
    root = HERE if path.is_relative_to(HERE) else HERE.parent
    return str(path.relative_to(root))


def _of_python() -> Iterator[tuple[str, Message]]:
    for path in _files_of_python():
        text = path.read_text()
        if not _MAYBE_CALLS.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in CALLS:
                continue
            plain = [text for one in node.args[:2] for text in _literals(one)]
            if node.func.id.startswith("n") and plain:
                yield _place(path), Message(*plain)
                continue
            for one in plain:
                yield _place(path), Message(one)


def _literals(node: ast.expr) -> Iterator[str]:
    for one in _branches(node):
        if isinstance(one.value, str):
            yield one.value


def moved_files() -> list[Path]:
    """Modules whose sentences are constants."""
    found = (HERE.parent / name for name in MOVED)
    return sorted(
        file for one in found for file in (one.rglob("*.py") if one.is_dir() else [one])
    )


def _of_moved() -> Iterator[tuple[str, Message]]:
    for path in moved_files():
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
    if isinstance(node, ast.FunctionDef) and node.name in _FOR_PROGRAMS:
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
