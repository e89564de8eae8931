"""What was entered for a source: checked as a whole, tried, and only then stored.

A try takes a thread of the web server, so it is short and few run at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from catalog import datasources
from catalog.access.enforcement import require
from catalog.access.policy import Principal, Privilege, Securable
from catalog.api.places import Places
from catalog.datasources import DatasourceChange, NewDatasource
from catalog.discovery.probe import Report, run_probe
from catalog.discovery.services import start_test
from catalog.models import Datasource
from catalog.sources.access import access_for
from core.errors import TransientError
from frontend.forms.sources import SourceForm

MOST_TRIED = 3
CONNECT_SECONDS, STATEMENT_SECONDS = 5, 10
_tried = Places(most=MOST_TRIED, most_each=MOST_TRIED)


@dataclass(slots=True)
class Entry:
    """report  of the test, once there was one"""

    form: SourceForm
    stored: Datasource | None
    principal: Principal
    report: Report | None = None

    def save(self, *, is_tested: bool) -> Datasource | None:
        """None when the test failed. InvalidRequest names what the services refuse,
        also beside fields that the form itself found wrong."""
        is_whole = self.form.is_valid()
        draft = self._draft()
        if not is_whole:
            return None
        if is_tested:
            self.report = self._try(draft)
            if not self.report.is_ok:
                return None
        test = self.report.as_json() if self.report else None
        if self.stored is None:
            return self._create(test)
        return datasources.update_datasource(
            self.stored.name,
            self._change(),
            by=self.principal.name,
            expected_version=self.stored.version,
            test=test,
        )

    def words(self, saved: Datasource) -> str:
        done = "stored" if self.stored is None else "changed"
        if self.report is None:
            return f"{saved.name} is {done} without a test."
        return f"{saved.name} answered every step of its test and is {done}."

    def _draft(self) -> Datasource:
        if self.stored is None:
            new = self._new()
            if new.name:
                require(self.principal, Privilege.MANAGE, Securable(new.name))
            return datasources.drafted(new)
        row = Datasource.objects.get(pk=self.stored.pk)
        return datasources.drafted_change(row, self._change())

    def _try(self, draft: Datasource) -> Report:
        """A connection test, right now. TransientError while others try."""
        place = _tried.take(self.principal.name)
        if place is None:
            raise TransientError(
                f"{MOST_TRIED} connection tests run already",
                code="busy",
                hint="try again in some seconds",
            )
        try:
            access = access_for(draft)
            return run_probe(
                replace(
                    access,
                    connect_timeout=min(access.connect_timeout, CONNECT_SECONDS),
                    statement_timeout=min(access.statement_timeout, STATEMENT_SECONDS),
                )
            )
        finally:
            place.give_back()

    def _create(self, test: dict[str, Any] | None) -> Datasource:
        by = self.principal.name
        source = datasources.create_datasource(self._new(), by=by, test=test)
        if test is None:
            start_test(source, by=by)
        return source

    def _new(self) -> NewDatasource:
        """With what is right so far; what is missing counts as empty."""
        data = self.form.cleaned_data
        return NewDatasource(
            name=data.get("name", ""),
            kind=self.form.kind.name,
            host=data.get("host", ""),
            port=data.get("port") or 0,
            database=data.get("database", ""),
            username=data.get("username", ""),
            password=self.form.secret,
            tls=data.get("tls") or "off",
            options=self.form.options(),
        )

    def _change(self) -> DatasourceChange:
        data = self.form.cleaned_data
        return DatasourceChange(
            host=data.get("host"),
            port=data.get("port"),
            database=data.get("database"),
            username=data.get("username"),
            password=self.form.secret or None,
            tls=data.get("tls"),
            options=self.form.options(),
        )
