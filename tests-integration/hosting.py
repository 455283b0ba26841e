"""Where an application may have its worker run: each host here is one, and ends as it would."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from jobq.worker import Worker

    Make = Callable[[], Worker]


def run(make: Make) -> None:
    make().run()


def cancel(make: Make) -> None:
    """An event loop of the program's own, which cancels `run_async` each time SIGTERM comes."""
    asyncio.run(_until_cancelled(make()))


async def _until_cancelled(worker: Worker) -> None:
    task = asyncio.ensure_future(worker.run_async())

    def cancelled() -> None:
        task.cancel()
        structlog.get_logger().info("cancelling")

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, cancelled)
    try:
        await task
    except asyncio.CancelledError:
        structlog.get_logger().info("cancelled")


def threads(workers: Sequence[Worker]) -> None:
    """All started at once outside the main thread; Ctrl-C stops them."""
    running = [threading.Thread(target=worker.run) for worker in workers]
    for thread in running:
        thread.start()
    try:
        _await(running)
    except KeyboardInterrupt:
        for worker in workers:
            worker.stop()
        _await(running)


def _await(running: list[threading.Thread]) -> None:
    # A `join` that Ctrl-C interrupts takes its thread for ended (bpo-45274).
    while any(thread.is_alive() for thread in running):
        time.sleep(0.02)


def processes(
    serve: Callable[..., None], arguments: tuple[Any, ...], *, method: str, count: int
) -> None:
    """So many children by `multiprocessing`, to which SIGTERM is passed on."""
    context: Any = multiprocessing.get_context(method)
    children = [context.Process(target=serve, args=arguments) for _ in range(count)]
    for child in children:
        child.start()

    def stop(*_: Any) -> None:
        for child in children:
            os.kill(child.pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    for child in children:
        child.join()
    sys.exit(max(abs(child.exitcode) for child in children))
