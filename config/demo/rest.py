"""A REST client as small as a script of a user's would be."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.errors import TerminalError

JOB_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Rest:
    """`base` is the web address without /api/v1."""

    base: str
    token: str

    def call(self, method: str, path: str, body: object = None) -> Reply:
        """The reply whatever its status; a connection that breaks is tried again."""
        request = urllib.request.Request(
            f"{self.base}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return Reply(reply.status, _decoded(reply.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, _decoded(error.read()))
        except OSError as error:
            return Reply(0, {"title": str(error)})

    def demand(self, method: str, path: str, body: object = None) -> Any:
        """The body of a success; TerminalError with the problem's own words."""
        reply = self.call(method, path, body)
        if 200 <= reply.status < 300:
            return reply.body
        problem = reply.body if isinstance(reply.body, dict) else {}
        text = problem.get("detail") or problem.get("title") or "no explanation"
        raise TerminalError(
            f"{method} {path} answered {reply.status}: {text}",
            hint=str(problem.get("hint", "")),
        )

    def wait_job(self, job: dict[str, Any], say: Callable[[str], None]) -> None:
        """Follow a job until it ends; its progress is shown when it changes."""
        limit, shown = time.monotonic() + JOB_SECONDS, ""
        while time.monotonic() < limit:
            found = self.demand("GET", f"/jobs/{job['id']}")
            progress = found.get("progress") or {}
            line = _progress_line(progress)
            if line != shown and line:
                say(f"  {line}")
                shown = line
            if found["state"] == "SUCCEEDED":
                return
            if found["state"] in {"FAILED", "CANCELLED"}:
                error = found.get("error") or {}
                raise TerminalError(
                    f"job {found['kind']} of {found['subject']} ended "
                    f"{found['state']}: {error.get('message', '')}",
                    hint=str(error.get("hint", "")),
                )
            time.sleep(0.3)
        raise TerminalError(f"job {job['id']} did not end in {JOB_SECONDS:.0f} s")


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return {"title": raw[:200].decode(errors="replace")}


def _progress_line(progress: dict[str, Any]) -> str:
    done, total = progress.get("done"), progress.get("total")
    if not done:
        return ""
    of = f" of {total}" if total else ""
    return (
        f"{progress.get('phase', '')}: {done}{of} {progress.get('unit') or ''}".strip()
    )
