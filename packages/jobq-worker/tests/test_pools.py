"""Threads for blocking work."""

import subprocess
import sys
import threading
import time
from contextvars import ContextVar, copy_context
from queue import SimpleQueue

from working import until

from jobq.worker.pools import Pool

SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


def test_threads_are_used_again_when_they_are_idle() -> None:
    pool = Pool("t", context=copy_context())
    names: SimpleQueue[str] = SimpleQueue()
    for _ in range(20):
        pool.submit(lambda: names.put(threading.current_thread().name))
        assert names.get(timeout=5) in ("t-1", "t-2")
        time.sleep(0.002)
    pool.close()


def test_blocked_work_holds_up_no_other_below_the_most() -> None:
    pool = Pool("t", context=copy_context(), most=3)
    blocked, done = threading.Event(), SimpleQueue[int]()
    for _ in range(2):
        pool.submit(blocked.wait)
    pool.submit(done.put, 1)
    assert done.get(timeout=5) == 1
    blocked.set()
    pool.close()


def test_beyond_the_most_work_waits_its_turn() -> None:
    pool = Pool("t", context=copy_context(), most=2)
    blocked, running, done = threading.Event(), SimpleQueue[int](), SimpleQueue[int]()

    def work(number: int) -> None:
        running.put(number)
        blocked.wait()
        done.put(number)

    for number in range(5):
        pool.submit(work, number)
    until(lambda: running.qsize() == 2)
    time.sleep(0.02)
    assert running.qsize() == 2
    blocked.set()
    assert {done.get(timeout=5) for _ in range(5)} == set(range(5))
    pool.close()


def test_what_a_thread_submits_once_it_is_free_is_its_own_next_work() -> None:
    names: SimpleQueue[str] = SimpleQueue()

    def then(left: int) -> None:
        if left:
            pool.submit(work, left - 1)

    def work(left: int) -> int:
        names.put(threading.current_thread().name)
        return left

    pool = Pool("t", context=copy_context(), then=then)
    others = threading.Barrier(4)
    for _ in range(3):
        pool.submit(lambda: others.wait(5) and 0)
    others.wait(5)
    pool.submit(work, 10)
    assert len({names.get(timeout=5) for _ in range(11)}) == 1
    pool.close()


def test_two_works_that_a_free_thread_submits_run_side_by_side() -> None:
    together = threading.Barrier(3)

    def then(returned: str | None) -> None:
        if returned == "first":
            pool.submit(lambda: together.wait(5) and None)
            pool.submit(lambda: together.wait(5) and None)

    pool = Pool("t", context=copy_context(), most=2, then=then)
    pool.submit(lambda: "first")
    together.wait(5)
    pool.close()


def test_what_work_returns_while_other_work_waits_is_handed_on_in_passing() -> None:
    told: SimpleQueue[tuple[str, int]] = SimpleQueue()
    pool = Pool(
        "t",
        context=copy_context(),
        most=1,
        then=lambda number: told.put(("then", number)),
        in_passing=lambda number: told.put(("in passing", number)),
    )
    blocked = threading.Event()
    pool.submit(lambda: blocked.wait(5) and 1)
    pool.submit(lambda: 2)
    blocked.set()
    assert [told.get(timeout=5) for _ in range(2)] == [("in passing", 1), ("then", 2)]
    pool.close()


def test_closing_lets_every_thread_go() -> None:
    pool = Pool("going", context=copy_context())
    blocked = threading.Event()
    for _ in range(3):
        pool.submit(blocked.wait)
    pool.close()
    blocked.set()
    until(lambda: not any(thread.name.startswith("going") for thread in threading.enumerate()))


def test_work_begins_with_the_context_that_the_pool_was_given() -> None:
    SEEN.set("the application's")
    pool = Pool("t", context=copy_context())
    SEEN.set("something later")
    seen: SimpleQueue[str] = SimpleQueue()
    pool.submit(lambda: seen.put(SEEN.get()))
    assert seen.get(timeout=5) == "the application's"
    pool.close()


def test_a_thread_that_is_stuck_keeps_no_process_alive() -> None:
    code = (
        "import threading, contextvars; from jobq.worker.pools import Pool;"
        "Pool('t', context=contextvars.copy_context()).submit(threading.Event().wait)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=20, check=False)
    assert done.returncode == 0
