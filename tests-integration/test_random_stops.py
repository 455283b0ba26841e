"""S4 and S6: a stop at any instant ends in time, accounts for everything and holds nothing back.

Each stop follows from a seed. Without `--full` there are 20, from a seed of the moment.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import breakages
import pytest
from bench import Bench, bench_on, drain, job
from processes import Process, serving, until

from jobq.core import JobRequest, Message
from jobq.sqs.common.queue import SqsQueue

pytestmark = pytest.mark.timeout(1800)

IDLE_WAIT = 1.0
LONGEST_JOB = 0.6
# For signals, threads and a process that ends, on a machine that does other things too.
SLACK = 2.5
# The stop of one stop in eight meets a job that outlasts it.
SHORT_SHUTDOWN = 2.0
STUBBORN_SECONDS = 30
AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When and on what: all of it drawn from `seed`."""

    seed: int
    kind: str
    name: str
    jobs: tuple[JobRequest, ...] = field(repr=False)
    malformed: int
    claim_size: int | None
    concurrency: int
    stubborn: bool
    number: signal.Signals
    delay: float

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")


def drawn(seed: int) -> Stop:
    chance = random.Random(seed)
    name = chance.choice(["jobs", "ledger.fifo"])
    fifo, stubborn = name.endswith(".fifo"), chance.random() < 1 / 8
    longest = chance.choice([0.0, 0.05, LONGEST_JOB])
    jobs: list[JobRequest] = []
    for n in range(chance.choice([0, 3, 30, 120])):
        options: dict[str, Any] = {"seconds": round(chance.uniform(0, longest), 3)}
        if stubborn and chance.random() < 0.2:
            options["seconds"] = STUBBORN_SECONDS
        elif not fifo and chance.random() < 0.1:
            options["fails"] = 1
        group = f"g{chance.randrange(9)}" if fifo else None
        jobs.append(job(chance.choice(["sync", "async"]), f"j{n}", group=group, **options))
    return Stop(
        seed=seed,
        kind=chance.choice(["sync", "async"]),
        name=name,
        jobs=tuple(jobs),
        malformed=0 if fifo else chance.randrange(3),
        claim_size=chance.choice([None, 10]),
        concurrency=chance.choice([1, 2, 8]),
        stubborn=stubborn,
        number=chance.choice([signal.SIGTERM, signal.SIGINT]),
        delay=chance.uniform(0, 1.5),
    )


def carried_out(stop: Stop, bench: Bench) -> None:
    queue = bench.queue(stop.name)
    malformed = [queue.publish(Message("no job")) for _ in range(stop.malformed)]
    ids = bench.send(queue, stop.jobs) if stop.jobs else []
    definition: dict[str, Any] = {"name": queue.name, "visibility_timeout": 60}
    if stop.claim_size is not None:
        definition["claim_size"] = stop.claim_size
    shutdown = SHORT_SHUTDOWN if stop.stubborn else 15
    options: dict[str, Any] = {"idle_wait_seconds": IDLE_WAIT, "shutdown_timeout": shutdown}
    options["concurrency"] = stop.concurrency
    with bench.worker({"q": definition}, setup={"kind": stop.kind}, **options) as worker:
        time.sleep(stop.delay)
        at = worker.signal(stop.number)
        code = worker.wait()
        seconds = time.monotonic() - at
    assert_ended_in_time(stop, bench, code, seconds, at)
    assert_accounted_for(bench, worker, malformed)
    assert_nothing_is_held_back(stop, bench, queue, {*ids, *malformed})


def assert_ended_in_time(stop: Stop, bench: Bench, code: int, seconds: float, at: float) -> None:
    payloads = [job.payload or {} for job in stop.jobs]
    long = {payload["id"] for payload in payloads if payload["seconds"] > LONGEST_JOB}
    if long.intersection(bench.journal.started()):
        assert code == 1
        assert SHORT_SHUTDOWN <= seconds < SHORT_SHUTDOWN + SLACK
    else:
        assert code == 0
        assert seconds < max(IDLE_WAIT, LONGEST_JOB) + SLACK
    late = [one for one in bench.traffic.receives if one.request.at > at + 0.5]
    assert not late


def assert_accounted_for(bench: Bench, worker: Process, malformed: list[str]) -> None:
    """The last line says what passed the proxy and what the handlers wrote down."""
    line, traffic, journal = worker.last_line(), bench.traffic, bench.journal
    received, started = traffic.received, journal.started()
    refused = set(traffic.deleted) & set(malformed)
    given_back = sum(len(traffic.confirmed(one)) for one in traffic.give_backs)
    assert line["received"] == len(received) == len(set(received))
    assert line["started"] == len(started) == len(set(started))
    assert line["refused"] == len(refused)
    assert (line["taken_over"], line["left"]) == (0, 0)
    assert line["given_back"] == given_back == len(received) - len(started) - len(refused)
    assert sorted(traffic.deleted) == sorted([*journal.ended(), *refused])


def assert_nothing_is_held_back(stop: Stop, bench: Bench, queue: SqsQueue, sent: set[str]) -> None:
    """Only what started and wasn't deleted is in flight, and locks its group if it has one."""
    started, deleted = set(bench.journal.started()), set(bench.traffic.deleted)
    left = started - deleted
    assert queue.stats().in_flight == len(left)
    groups = {(job.payload or {})["id"]: job.message_group_id for job in stop.jobs}
    locked = {groups[name] for name in left} if stop.fifo else set[str]()
    visible = {name for name in sent - started - deleted if groups.get(name) not in locked}
    assert sorted(drain(queue)) == sorted(visible)


def test_s4_s6_a_stop_at_any_instant_is_in_time_and_accounts_for_everything(
    ministack: str,
    tmp_path: Path,
    figure: Callable[[int, int], int],
    seed: int,
) -> None:
    def try_one(number: int) -> str | None:
        folder = tmp_path / str(number)
        folder.mkdir()
        stop = drawn(number)
        try:
            with bench_on(ministack, folder) as bench:
                carried_out(stop, bench)
        except Exception as error:  # noqa: BLE001 - told with its seed
            return f"--seed {number} ({type(error).__name__}) {error}\n{stop}"
        return None

    seeds = range(seed, seed + figure(20, 200))
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        failures = [failure for failure in pool.map(try_one, seeds) if failure]
    print(f"{len(seeds)} stops from seed {seed} in {time.monotonic() - began:.0f} s")
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_s4_a_stop_before_the_queues_have_answered_is_at_once(
    bench: Bench, number: signal.Signals
) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(queue, [job("sync", "j")])
    bench.proxy.intercept = breakages.late(20)
    worker = serving(bench.proxy.url, bench.settings({"q": {"name": queue.name}}))
    try:
        until(lambda: bench.proxy.waiting, "a first question")
        at = worker.signal(number)
        assert worker.wait() == 0
        assert time.monotonic() - at < SLACK
    finally:
        worker.end()
    line = worker.last_line()
    assert (line["received"], line["exit_code"]) == (0, 0)
    assert drain(queue) == ids
