"""FIFO groups in the engine: statements 9 to 11."""

from __future__ import annotations

import pytest
from simulated import THROTTLED, Conduct, SimulatedWorker, World, postpones, raises

from jobq.core import BackendError, LeaseLostError

config_of = SimulatedWorker.config_of


def world_with_groups(**groups: int) -> World:
    """A queue `jobs.fifo` with so many messages of each group, named `a1`, `a2`, …"""
    world = World()
    world.queue("jobs.fifo")
    for n in range(1, max(groups.values()) + 1):
        for group, count in groups.items():
            if n <= count:
                world.send("jobs.fifo", f"{group}{n}", group=group)
    return world


def worker_on(world: World, *, claim_size: int | None = 10, **options: object) -> SimulatedWorker:
    settings = {"concurrency": 8, "claim_ahead": 60, "hold_limit": 600, **options}
    return world.worker(queues=[config_of("jobs.fifo", claim_size=claim_size)], **settings)


def overlaps(world: World, seconds: float) -> bool:
    ends: dict[str | None, float] = {}
    for start in world.starts:
        if start.at < ends.get(start.group, 0):
            return True
        ends[start.group] = start.at + seconds
    return False


@pytest.mark.parametrize("claim_size", [None, 1, 10])
@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_o1_a_group_runs_in_order_one_at_a_time_and_groups_run_side_by_side(
    claim_size: int | None, concurrency: int
) -> None:
    world = world_with_groups(a=10, b=10, c=10)
    world.usual = Conduct(1)
    worker_on(world, claim_size=claim_size, concurrency=concurrency)
    world.run(40)
    for group in "abc":
        started = [body for body in world.started() if body.startswith(group)]
        assert started == [f"{group}{n}" for n in range(1, 11)]
    assert not overlaps(world, 1)
    if concurrency >= 3:
        # The slowest a machine that runs them side by side may be, and far from one by one.
        assert world.starts[-1].at - world.starts[0].at < 15


@pytest.mark.parametrize("claim_size", [None, 10])
@pytest.mark.parametrize(
    "first", [raises(base_delay=1), raises(), postpones(0.1, 2), postpones(0.1, 0)]
)
def test_o2_a_message_that_fails_comes_back_before_those_behind_it(
    claim_size: int | None, first: Conduct
) -> None:
    world = world_with_groups(a=4)
    world.conduct["a2"] = [first, Conduct()]
    worker_on(world, claim_size=claim_size)
    world.run(100)
    assert world.started() == ["a1", "a2", "a2", "a3", "a4"]


@pytest.mark.parametrize(
    "error", [LeaseLostError("receipt is refused"), BackendError("the sender's fault")]
)
def test_o2_so_does_one_whose_delete_fails_for_good(error: BackendError) -> None:
    world = world_with_groups(a=4)
    world.faults["ack a2"].errors.append(error)
    worker_on(world)
    world.run(100)
    assert world.started() == ["a1", "a2", "a2", "a3", "a4"]


def test_o2_so_does_one_whose_lease_is_lost_while_it_runs() -> None:
    world = world_with_groups(a=4)
    world.conduct["a2"] = [Conduct(50), Conduct()]
    world.faults["extend a2"].errors.extend([THROTTLED] * 200)
    worker_on(world)
    world.run(100, until=lambda: world.started().count("a2") == 2)
    world.faults["extend a2"].errors.clear()
    world.run(100)
    assert world.started() == ["a1", "a2", "a2", "a3", "a4"]
    first, second = (start for start in world.starts if start.body == "a2")
    assert second.at >= first.at + 50, "the lane stays shut while the lost run goes on"


def test_o3_a_failure_in_one_group_does_not_hold_up_another() -> None:
    world = world_with_groups(a=3, b=3)
    world.conduct["a1"] = [raises(base_delay=30), Conduct()]
    worker_on(world, concurrency=1)
    world.run(10)
    assert [body for body in world.started() if body.startswith("b")] == ["b1", "b2", "b3"]
    world.run(100)
    assert [body for body in world.started() if body.startswith("a")] == ["a1", "a1", "a2", "a3"]


def test_o4_ten_slow_messages_of_one_group_run_once_each() -> None:
    world = world_with_groups(a=10)
    world.usual = Conduct(2)
    world.worker(
        queues=[config_of("jobs.fifo", claim_size=10, visibility=5.0)],
        concurrency=8,
        claim_ahead=60,
        hold_limit=600,
    )
    world.run(60)
    assert world.started() == [f"a{n}" for n in range(1, 11)]
    assert {start.receive_count for start in world.starts} == {1}


def test_o5_an_unknown_job_type_stalls_its_group_alone_and_for_a_bounded_time() -> None:
    world = world_with_groups(unknown=1, b=3)
    world.send("jobs.fifo", "after", group="unknown")
    worker = worker_on(world)
    world.run(100)
    assert world.started() == ["b1", "b2", "b3"]
    assert ("unknown1", "unknown_job_type") in worker.outcomes()
    worker.verdict = lambda _: "runnable"
    world.run(400)
    assert world.started() == ["b1", "b2", "b3", "unknown1", "after"]


def test_o5_the_redrive_policy_bounds_the_stall_where_nobody_ever_knows_the_type() -> None:
    world = World()
    dead = world.queue("dead.fifo")
    del world.stores["dead.fifo"]
    world.queue("jobs.fifo", dead_letter=dead, max_receive_count=3)
    world.send("jobs.fifo", "unknown", "after", group="a")
    world.worker(queues=[config_of("jobs.fifo", max_receive_count=3)])
    world.run(3 * 300 - 20)
    assert world.started() == []
    world.run(60)
    assert world.started() == ["after"]
    assert [entry.body for entry in dead.entries().values()] == ["unknown"]


def test_a_malformed_head_is_deleted_and_the_group_goes_on() -> None:
    world = world_with_groups(malformed=1, a=1)
    world.send("jobs.fifo", "behind", group="malformed")
    worker_on(world)
    world.run(10)
    assert sorted(world.started()) == ["a1", "behind"]
    assert world.left("jobs.fifo") == 0


def test_a_malformed_message_that_is_left_keeps_its_group_behind_it() -> None:
    world = world_with_groups(malformed=1)
    world.send("jobs.fifo", "behind", group="malformed")
    worker_on(world, on_malformed="leave")
    world.run(100)
    assert world.started() == []


def test_o7_the_next_starts_only_when_the_delete_before_is_confirmed() -> None:
    world = world_with_groups(a=3)
    world.faults["ack a2"].errors.extend([THROTTLED] * 4)
    worker_on(world)
    world.run(60)
    assert world.started() == ["a1", "a2", "a3"]
    second, third = world.starts[1:]
    assert third.at - second.at > 2, "the throttled delete took its tries"


def test_a_fifo_delete_does_not_wait_for_company() -> None:
    world = world_with_groups(a=5, b=5)
    world.usual = Conduct(0.3)
    worker_on(world, concurrency=2)
    world.run(10)
    gaps = [
        after.at - before.at
        for group in "ab"
        for before, after in zip(
            [start for start in world.starts if start.group == group],
            [start for start in world.starts if start.group == group][1:],
            strict=False,
        )
    ]
    assert max(gaps) < 0.3 + 0.03


def test_messages_given_back_for_room_come_back_in_order() -> None:
    world = world_with_groups(a=5)
    world.conduct["a1"] = [Conduct(30)]
    worker = worker_on(world, hold_limit=5)
    world.run(200)
    assert world.started() == [f"a{n}" for n in range(1, 6)]
    assert ("a2", "released") in worker.outcomes()
    assert worker.outcomes().count(("a2", "released")) == 1


def test_what_is_given_back_and_received_again_is_not_run_past_by_those_behind_it() -> None:
    world = world_with_groups(a=4)
    world.conduct["a1"] = [Conduct(30)]
    worker_on(world, hold_limit=5)
    world.faults["nack a2"].errors.extend([THROTTLED] * 6)
    world.run(300)
    assert world.started() == [f"a{n}" for n in range(1, 5)]


def test_a_group_id_means_nothing_to_an_unordered_queue() -> None:
    world = World()
    world.queue("jobs")
    for n in range(4):
        world.send("jobs", f"j{n}", group="same")
    world.usual = Conduct(1)
    world.worker(concurrency=4)
    world.run(1.2)
    assert len(world.starts) == 4


def test_a_fifo_queue_is_claimed_one_by_one_with_several_receives_out_at_once() -> None:
    world = World()
    world.queue("jobs.fifo")
    for n in range(200):
        world.send("jobs.fifo", f"j{n}", group=f"g{n}")
    world.usual = Conduct(0.2)
    world.worker(concurrency=8)
    world.run(4)
    assert {request.count for request in world.requests if request.kind == "receive"} == {1}
    busy = [start for start in world.starts if start.at > world.starts[0].at + 1]
    assert len(busy) > 0.8 * 8 * 3 / 0.2 * 0.9
