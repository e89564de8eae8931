"""REST of SQL statements and of sessions, below /api/v1."""

from __future__ import annotations

from django.urls import URLPattern, path

from gateway.api import statements

_ONE = "sql/statements/<uuid:id>"

urlpatterns: list[URLPattern] = [
    path("sql/statements", statements.StatementsView.as_view()),
    path(_ONE, statements.StatementView.as_view()),
    path(f"{_ONE}/results", statements.ResultsView.as_view()),
    path(f"{_ONE}:cancel", statements.CancelView.as_view()),
    path("sessions", statements.SessionsView.as_view()),
    path("sessions/<uuid:id>", statements.SessionView.as_view()),
]
