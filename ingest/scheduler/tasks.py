"""Celery's side of ingestion: one-line bodies into services, each done in seconds."""

from __future__ import annotations

from celery import shared_task

from ingest.scheduler.tick import tick_asked


@shared_task(name="ingest.tick", ignore_result=True)  # type: ignore[untyped-decorator]
def tick() -> None:
    tick_asked()
