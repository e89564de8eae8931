"""Logs: one JSON object per line, as every process of Sluice writes them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, TextIO

_LEFT_OUT = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "request",  # Django's object; its id is there already
}


class JsonLines(logging.Formatter):
    """at, level, logger, message, extras, exception."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.line(record), ensure_ascii=False, default=str)

    def line(self, record: logging.LogRecord) -> dict[str, Any]:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self.context(),
        }
        line |= {k: v for k, v in vars(record).items() if k not in _LEFT_OUT}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return line

    def context(self) -> dict[str, Any]:
        """For what it is that this thread works."""
        return {}


def log_to(stream: TextIO | None = None) -> None:
    """For processes without Django. None: stderr."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
