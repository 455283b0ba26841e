"""Which queue gets the next start, and how much of the rate: statement 19."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated import Conduct, SimulatedWorker, World

from jobq.worker.engine.commands import Receive

config_of = SimulatedWorker.config_of


def backlog(world: World, queue: str, count: int, *, groups: int = 0) -> None:
    world.queue(queue)
    for n in range(count):
        world.send(queue, f"{queue}-{n}", group=f"g{n % groups}" if groups else None)


def seconds_for(jobs: int, seconds: float, queues: list[str], **options: object) -> float:
    """How long a worker takes for so many jobs, all of them on the last of its queues."""
    world = World()
    for name in queues:
        world.queue(name)
    last = queues[-1]
    for n in range(jobs):
        world.send(last, f"j{n}", group=f"g{n}" if last.endswith(".fifo") else None)
    world.usual = Conduct(seconds)
    world.worker(**options)
    world.run(3600, until=lambda: len(world.deleted) == jobs)
    assert len(world.deleted) == jobs
    return world.now - world.starts[0].at


@pytest.mark.parametrize("polling", ["weighted", "strict"])
@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize(("concurrency", "seconds"), [(1, 0.05), (8, 0.05), (4, 1)])
def test_p5_four_empty_queues_cost_the_fifth_less_than_a_fifth_of_its_rate(
    concurrency: int, seconds: float, suffix: str, polling: str
) -> None:
    options = {"concurrency": concurrency, "polling": polling}
    jobs = round(5 * concurrency / seconds)
    alone = seconds_for(jobs, seconds, [f"q4{suffix}"], **options)
    last_of_five = seconds_for(jobs, seconds, [f"q{n}{suffix}" for n in range(5)], **options)
    assert alone / last_of_five >= 0.8


class Paused(SimulatedWorker):
    """While a queue is in `paused` its poll hook returns without receiving."""

    paused: frozenset[str] = frozenset()
    steps = 0

    def tell(self, *events: object) -> None:
        self.steps += 1
        super().tell(*events)

    def _receive(self, command: Receive) -> None:
        if command.queue in self.paused:
            self.world.after(self.world.delay(), lambda: self._skip(command))
        else:
            super()._receive(command)


@pytest.mark.parametrize("polling", ["weighted", "strict"])
@pytest.mark.parametrize("quiet", ["quiet", "quiet.fifo"])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_queue_that_has_been_idle_is_served_beside_one_that_takes_every_slot(
    concurrency: int, quiet: str, polling: str
) -> None:
    world = World()
    world.queue(quiet)
    backlog(world, "full", 800)
    world.usual = Conduct(0.2)
    world.worker(concurrency=concurrency, polling=polling)
    world.run(30)
    assert world.count("receive", quiet) == 2
    world.send(quiet, "job", group="g" if quiet.endswith("fifo") else None)
    world.run(2)
    assert "job" in world.started()


def test_a_later_queue_is_not_asked_while_an_earlier_one_takes_every_slot() -> None:
    world = World()
    backlog(world, "first", 800)
    world.queue("second")
    world.usual = Conduct(0.2)
    world.worker(polling="strict")
    world.run(30)
    world.send("second", "job")
    world.run(60)
    assert "job" not in world.started()
    assert world.count("receive", "second") <= 1


def share_of_five(world: World, starts: int = 1000) -> float:
    """Of the next starts, how many the heavier queue gets for each of the lighter one."""
    first = len(world.starts)
    world.run(3600, until=lambda: len(world.starts) >= first + starts)
    queues = Counter(start.queue for start in world.starts[first : first + starts])
    assert queues.total() == starts
    return queues["five"] / queues["one"]


def two_full_queues(count: int) -> tuple[World, Paused]:
    world = World()
    backlog(world, "five", count)
    backlog(world, "one", count)
    world.usual = Conduct(0.05)
    return world, Paused(world, 0, queues=[config_of("five", weight=5), config_of("one")])


def test_p6_weights_are_the_shares_of_starts() -> None:
    world, _ = two_full_queues(1000)
    assert 4 <= share_of_five(world) <= 6


@pytest.mark.parametrize("paused", [{"five", "one"}, {"five"}, {"one"}])
def test_p6_weights_are_the_shares_of_starts_after_a_hundred_pauses_too(paused: set[str]) -> None:
    world, worker = two_full_queues(3500)
    for _ in range(100):
        worker.paused = frozenset(paused)
        world.run(1)
        worker.paused = frozenset()
        world.run(0.2)
    assert 4 <= share_of_five(world) <= 6


@pytest.mark.parametrize("full", [True, False])
def test_p2_a_paused_queue_is_asked_once_a_second_and_nothing_turns_meanwhile(
    full: bool,  # noqa: FBT001
) -> None:
    world = World()
    backlog(world, "jobs", 100 if full else 0)
    worker = Paused(world, 0, concurrency=4)
    worker.paused = frozenset({"jobs"})
    world.run(10)
    assert world.starts == []
    # A pulse a second, and what each of the polls and its answer take.
    assert worker.steps <= 10 * 3 + 2
    worker.paused = frozenset()
    world.send("jobs", "after")
    world.run(30)
    assert "after" in world.started()


@pytest.mark.parametrize("seconds", [0.02, 0.3, 5])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_weights_hold_for_jobs_of_any_length(seconds: float, concurrency: int) -> None:
    world = World()
    backlog(world, "three", 900)
    backlog(world, "one.fifo", 900, groups=900)
    world.usual = Conduct(seconds)
    queues = [config_of("three", weight=3), config_of("one.fifo")]
    world.worker(queues=queues, concurrency=concurrency)
    world.run(10_000, until=lambda: len(world.starts) >= 600)
    shares = Counter(start.queue for start in world.starts[:600])
    assert 2.2 <= shares["three"] / shares["one.fifo"] <= 4


def test_no_queue_starves_beside_one_with_much_more_weight() -> None:
    world = World()
    backlog(world, "heavy", 2000)
    backlog(world, "light", 5)
    world.usual = Conduct(0.1)
    world.worker(queues=[config_of("heavy", weight=50), config_of("light")], concurrency=1)
    world.run(100)
    assert sum(start.queue == "light" for start in world.starts) == 5


def test_strict_starts_a_later_queue_only_when_the_earlier_has_nothing() -> None:
    world = World()
    backlog(world, "high", 50)
    backlog(world, "low", 50)
    world.usual = Conduct(0.5)
    world.worker(concurrency=2, polling="strict")
    world.run(60)
    order = [start.queue for start in world.starts]
    # Both queues' first long polls went out together, before either was known to have work.
    assert order[2:50].count("low") <= 1
    assert len(order) == 100


def test_strict_does_not_start_a_later_message_past_an_earlier_queue_still_to_be_asked() -> None:
    world = World()
    world.queue("high")
    world.queue("low")
    world.usual = Conduct(1)
    world.send("high", *[f"h{n}" for n in range(10)])
    world.send("low", *[f"l{n}" for n in range(10)])
    queues = [config_of("high"), config_of("low", claim_size=10)]
    world.worker(queues=queues, concurrency=1, polling="strict", claim_ahead=30, hold_limit=600)
    world.run(60)
    order = [start.queue for start in world.starts]
    assert order[2:10] == ["high"] * 8
    assert order[11:] == ["low"] * 9


@pytest.mark.parametrize("polling", ["weighted", "strict"])
def test_a_queue_holds_no_more_slots_than_its_cap(polling: str) -> None:
    world = World()
    backlog(world, "capped", 100)
    backlog(world, "open", 100)
    world.usual = Conduct(1)
    queues = [config_of("capped", cap=1, weight=10), config_of("open")]
    worker = world.worker(queues=queues, concurrency=4, polling=polling)
    for _ in range(200):
        world.run(0.1)
        held = [run.queue for run, _ in worker.running.values()]
        assert held.count("capped") <= 1
    assert sum(start.queue == "open" for start in world.starts) > 45
