"""Where a worker process is tried: queues on a local server, a proxy before it, a journal."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from journal import Journal
from processes import Process, until, worker_process
from sqs_proxy import Proxy, proxy_before
from traffic import Traffic, name_of

from jobq.core import JobRequest, Message, QueueGroup
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue
from jobq.sqs.standard.queue import SDK


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """`client` goes to the server itself: what a test sends and looks at doesn't pass the proxy."""

    server: str
    client: Any
    proxy: Proxy
    journal: Journal

    def queue(self, name: str, **options: Any) -> SqsQueue:
        """A new queue; `name` ends in `.fifo` for a FIFO one. `options` are those of `create`."""
        create = SqsFifoQueue.create if name.endswith(".fifo") else SqsStandardQueue.create
        return create(f"{uuid4().hex[:8]}-{name}", client=self.client, **options)

    def send(self, queue: SqsQueue, jobs: Iterable[JobRequest]) -> list[str]:
        """Send jobs in order; returns their ids."""
        jobs = list(jobs)
        QueueGroup({"q": {"queue": queue}}).enqueue_batch("q", jobs)
        return [str((job.payload or {})["id"]) for job in jobs]

    def send_body(self, queue: SqsQueue, body: str, group: str | None = None) -> None:
        queue.publish(Message(body, group_id=group))

    def worker(
        self,
        queues: dict[str, Any],
        *,
        host: str = "run",
        setup: dict[str, Any] | None = None,
        **options: Any,
    ) -> AbstractContextManager[Process]:
        """A worker process that has begun to serve, through the proxy; `queues` are definitions.

        `host` and `setup` are what `serving.py` takes beside them.
        """
        settings = self.settings(queues, host=host, setup=setup, **options)
        return worker_process(self.proxy.url, **settings)

    def settings(
        self,
        queues: dict[str, Any],
        *,
        host: str = "run",
        setup: dict[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Those of a worker process that isn't started yet."""
        journal = str(self.journal.path)
        given = {"queues": queues, "journal": journal, "host": host, "options": options}
        return {**given, **(setup or {})}

    def serve_until_empty(
        self,
        queues: dict[str, Any],
        *emptied: SqsQueue,
        seconds: float = 60,
        **options: Any,
    ) -> Process:
        """Run a worker until these queues hold nothing any more, not even in flight."""
        with self.worker(queues, **options) as worker:
            until(lambda: all(map(is_empty, emptied)), "empty queues", seconds=seconds, pause=0.05)
            assert worker.running, (worker.lines[-3:], worker.other_output)
        return worker

    @property
    def traffic(self) -> Traffic:
        """What the clients of the proxy asked and were told."""
        return Traffic(self.proxy.exchanges)

    @property
    def served(self) -> Traffic:
        """What the server was asked and did, whoever heard of it."""
        return Traffic(self.proxy.served)

    def until_started(self, count: int, *, seconds: float = 20) -> None:
        until(lambda: len(self.journal.started()) >= count, f"{count} starts", seconds=seconds)

    def until_ended(self, count: int, *, seconds: float = 20) -> None:
        until(lambda: len(self.journal.ended()) >= count, f"{count} ends", seconds=seconds)


@contextmanager
def bench_on(url: str, folder: Path, *, server: str = "ministack") -> Generator[Bench]:
    """A bench on the server at `url`."""
    client = SDK.make_client(ClientOptions(endpoint_url=url))
    journal = Journal(folder / "journal")
    try:
        with proxy_before(url) as proxy:
            yield Bench(server=server, client=client, proxy=proxy, journal=journal)
    finally:
        journal.close()
        client.close()


def job(job_type: str, job_id: str, *, group: str | None = None, **payload: Any) -> JobRequest:
    return JobRequest(job_type, {"id": job_id, **payload}, message_group_id=group)


def is_empty(queue: SqsQueue) -> bool:
    """Nothing is left of it: nothing that waits, that is in flight or that is delayed."""
    stats = queue.stats()
    return (stats.waiting, stats.in_flight, stats.delayed) == (0, 0, 0)


def drain(queue: SqsQueue) -> list[str]:
    """Take out all that is visible at once; returns the ids in the order they came."""
    found: list[str] = []
    while leases := queue.claim_batch(10, wait=0):
        found += [name_of(lease.body, lease.message_id) for lease in leases]
        queue.ack_batch(leases)
    return found
