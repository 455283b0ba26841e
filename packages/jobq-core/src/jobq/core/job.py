"""A job as producers, middleware and handlers see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Job:
    """One job. Middleware may add to `trace_headers` and `correlation_fields` in `produce`.

    `message_id`, `receive_count` and `sent_at` (Unix time in seconds) are known to consumers only.
    """

    job_type: str
    payload: dict[str, Any]
    queue: str
    trace_headers: dict[str, str] = field(default_factory=dict[str, str])
    correlation_fields: dict[str, Any] = field(default_factory=dict[str, Any])
    message_id: str | None = None
    receive_count: int = 0
    group_id: str | None = None
    sent_at: float | None = None
