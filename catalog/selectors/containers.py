"""Datasources and databases that a principal may see."""

from __future__ import annotations

from django.db.models import QuerySet

from catalog.access.enforcement import absent
from catalog.access.policy import Principal, Securable
from catalog.access.visibility import visible_databases, visible_datasources
from catalog.models import Database, Datasource


def datasources_for(principal: Principal) -> QuerySet[Datasource]:
    return Datasource.objects.filter(visible_datasources(principal))


def datasource_for(principal: Principal, name: str) -> Datasource:
    """The datasource of that name; NotFound when absent or hidden."""
    row = datasources_for(principal).filter(name=name).first()
    if row is None:
        raise absent(Securable(name))
    return row


def databases_for(principal: Principal, datasource: str) -> QuerySet[Database]:
    """Visible databases of one datasource, with it."""
    return Database.objects.filter(
        visible_databases(principal), datasource__name=datasource
    ).select_related("datasource")


def database_for(principal: Principal, datasource: str, name: str) -> Database:
    row = databases_for(principal, datasource).filter(name=name).first()
    if row is None:
        raise absent(Securable(datasource, name))
    return row
