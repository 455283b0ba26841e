"""One SDK client for each process."""

from __future__ import annotations

import os
import threading
from typing import Any

from jobq.core.errors import ConfigurationError, JobqError


class ClientSource:
    """Hands out a client: the one it was given, or one that it makes once per process.

    Calling it returns the client. A client that was given ready-made and used before a fork is
    refused after it (`ConfigurationError`): two processes on one socket read each other's replies.
    What making one raises is the cause of a `ConfigurationError`.
    """

    def __init__(self, client: Any) -> None:
        if isinstance(client, str):
            raise ConfigurationError(
                "client must be an SDK client or a callable that makes one, such as "
                f"client=lambda: boto3.client('sqs'), not {client!r}"
            )
        self._given = client
        # A lock for each process: a fork may copy one that another thread holds.
        self._locks: dict[int, threading.Lock] = {}
        self._made: Any = None
        self._pid: int | None = None

    def __call__(self) -> Any:
        pid = os.getpid()
        if self._pid == pid:
            return self._made
        if not callable(self._given):
            if self._pid is not None:
                raise ConfigurationError(
                    f"a client used in process {self._pid} can't be used after a fork, "
                    f"in process {pid}: pass a callable that makes one, such as "
                    "client=lambda: boto3.client('sqs')"
                )
            self._made, self._pid = self._given, pid
            return self._made
        return self._make(pid)

    def close(self) -> None:
        """Close the client that was made in this process; one that was given is the caller's."""
        if self._pid == os.getpid() and callable(self._given):
            made, self._made, self._pid = self._made, None, None
            close = getattr(made, "close", None)
            if close is not None:
                close()

    def _make(self, pid: int) -> Any:
        with self._locks.setdefault(pid, threading.Lock()):
            if self._pid != pid:
                try:
                    self._made = self._given()
                except JobqError:
                    raise
                except Exception as error:
                    raise ConfigurationError(
                        f"the callable given as client raised {type(error).__name__}: {error}"
                    ) from error
                self._pid = pid
            return self._made
