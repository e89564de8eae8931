"""The Celery app. Redis carries notifications only: an id, never a job.

Tasks live in `*/tasks.py` and end within seconds; nothing is lost when the
broker is flushed, because the tick finds every due row in the database.
"""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("sluice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=True,
    task_soft_time_limit=60,
    task_time_limit=120,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 600, "socket_timeout": 5},
    broker_connection_timeout=3,
)
app.autodiscover_tasks(["catalog", "ingest.scheduler"])
