"""A web app that sends jobs, and works them off in the same process.

    JOBQ_CONNECTION=memory uv run examples/web_app.py
    curl -X POST http://127.0.0.1:8000/customers/ada

takes requests on 127.0.0.1 (PORT, or 8000) until SIGTERM or Ctrl-C. Its queues come from the
environment: in memory it needs nothing else. With JOBQ_CONNECTION=sqs and JOBQ_SQS_REGION, or with
what `jobq local` prints, it uses the queues `shop-mail` and `shop-ledger.fifo`, which have to be
there; without them the worker says so, and ends the app.

One definition serves both sides. A request sends over the clients of the app's loop; the worker
opens its own, on its own loop. So a handler that keeps the app's loop busy costs no lease.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from jobq.core import AsyncQueueGroup
from jobq.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

queues = AsyncQueueGroup.from_env(
    {"mail": {"name": "shop-mail"}, "ledger": {"name": "shop-ledger.fifo"}}
)


async def welcome(payload: dict[str, Any]) -> None:
    """Write to a new customer, and have that booked: the next job, sent from within this one."""
    await asyncio.sleep(0.02)
    customer = payload["customer"]
    await queues.enqueue("ledger", "book", {"customer": customer}, message_group_id=customer)


def book(payload: dict[str, Any]) -> None:
    """Jobs of one customer are booked in order, those of different ones side by side."""


worker = Worker(queues, {"welcome": welcome, "book": book}, concurrency=8, idle_wait_seconds=5)


def end_with_the_worker(working: asyncio.Task[None]) -> None:
    """A worker that can't go on takes the app along: whoever supervises it starts both anew."""
    if not working.cancelled() and working.exception() is not None:
        signal.raise_signal(signal.SIGTERM)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with queues:
        working = asyncio.create_task(worker.run_async())
        working.add_done_callback(end_with_the_worker)
        try:
            yield
        finally:
            worker.stop()
            await working


app = FastAPI(lifespan=lifespan)


@app.post("/customers/{customer}", status_code=202)
async def sign_up(customer: str) -> dict[str, str]:
    return {"message_id": await queues.enqueue("mail", "welcome", {"customer": customer})}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
