"""REST of the catalog, below /api/v1. Jobs, onboardings and table verbs are ingest's,
statements the gateway's.
"""

from __future__ import annotations

from django.urls import URLPattern, path

from catalog.api import (
    access,
    converters,
    datasources,
    grants,
    instance,
    people,
    rules,
    saved_queries,
    tables,
)

converters.register()

DS = "datasources/<source:ds>"

urlpatterns: list[URLPattern] = [
    path("config", instance.ConfigView.as_view()),
    path("schema", instance.SchemaView.as_view()),
    path("datasources", datasources.DatasourcesView.as_view()),
    path("datasources/kinds", datasources.KindsView.as_view()),
    path(DS, datasources.DatasourceView.as_view()),
    path(f"{DS}:test", datasources.DatasourceTestView.as_view()),
    path(f"{DS}:discover", datasources.DatasourceDiscoverView.as_view()),
    path(f"{DS}/databases", datasources.DatabasesView.as_view()),
    path(f"{DS}/databases/<name:db>", datasources.DatabaseView.as_view()),
    path(f"{DS}/databases/<name:db>/tables", tables.DatabaseTablesView.as_view()),
    path(
        f"{DS}/databases/<name:db>/tables/<name:table>",
        tables.NamedTableView.as_view(),
    ),
    path("tables", tables.TablesView.as_view()),
    path("tables/<id:id>", tables.TableView.as_view()),
    path("tables/<id:id>/schema", tables.TableSchemaView.as_view()),
    path("tables/<id:id>/schema-history", tables.TableHistoryView.as_view()),
    path("users", access.UsersView.as_view()),
    path("users/<name:name>", access.UserView.as_view()),
    path("invitations", people.InvitationsView.as_view()),
    path("invitations/<id:id>", people.InvitationView.as_view()),
    path("groups", people.GroupsView.as_view()),
    path("groups/<name:name>", people.GroupView.as_view()),
    path("password", access.PasswordView.as_view()),
    path("grants", grants.GrantsView.as_view()),
    path("grants/effective", grants.EffectiveView.as_view()),
    path("grants/<id:id>", grants.GrantView.as_view()),
    path("rules", rules.RulesView.as_view()),
    path("rules/<id:id>", rules.RuleView.as_view()),
    path("access/explain", rules.ExplainView.as_view()),
    path("tokens", access.TokensView.as_view()),
    path("tokens/<id:id>", access.TokenView.as_view()),
    path("saved-queries", saved_queries.SavedQueriesView.as_view()),
    path("saved-queries/<id:id>", saved_queries.SavedQueryView.as_view()),
    path("audit", access.AuditView.as_view()),
]

everything_else = [path("<path:rest>", instance.NothingHere.as_view())]
