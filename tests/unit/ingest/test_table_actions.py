"""Each action is one object, and everything that spells actions spells the same ones."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import get_args

import pytest

from config.generated_pages import with_actions
from ingest.actions.registry import ACTIONS, verbs
from ingest.contract.job import RepairAction, RepairWork
from ingest.driver.table_services import repair as driver
from ingest.maintenance import remedies
from ingest.maintenance.repairs import REPAIRS
from ingest.maintenance.table_action import TableAction
from ingest.models.states import PIPELINE

ROOT = Path(__file__).resolve().parents[3]
WORK = {field.name for field in dataclasses.fields(RepairWork)}
every = pytest.mark.parametrize("action", ACTIONS.values(), ids=list(ACTIONS))


def test_each_repair_has_a_drivers_side_and_each_drivers_side_a_repair() -> None:
    asked = {action.repair.action for action in ACTIONS.values() if action.repair}
    assert asked == set(REPAIRS) == set(driver.REPAIRS) == set(get_args(RepairAction))


def test_remedies_are_actions() -> None:
    assert set(get_args(remedies.Repair)) - {""} <= set(ACTIONS)


@every
def test_fields_are_what_preview_and_run_take(action: TableAction) -> None:
    fields = [each for each in action.request.fields if not each.is_dry_run]
    names = {each.name for each in fields}
    assert (action.run is None) is (action.repair is not None)
    if action.repair is not None:
        assert names <= WORK
        return
    for call in (action.run, action.preview):
        if call is not None:
            known = inspect.signature(call).parameters.values()
            takes_any = any(each.kind == each.VAR_KEYWORD for each in known)
            assert takes_any or names <= {each.name for each in known}


@every
def test_what_will_happen_is_told_before(action: TableAction) -> None:
    assert action.effects or action.describe or action.preview
    if action.request.is_previewable:
        assert action.preview is not None
    assert action.states <= set(PIPELINE.states)


def test_names_and_routes_are_one_each() -> None:
    routes = [action.route for action in verbs()]
    assert len(routes) == len(set(routes))
    assert all(name == action.name for name, action in ACTIONS.items())


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / "maintenance.md").read_text()
    assert page == with_actions(page), "run `python manage.py write_docs`"
