"""Real signals to real processes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

PREAMBLE = """
import asyncio, os, signal, sys, threading, time
from jobq.core import QueueGroup
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker, run_worker
jobs = MemoryQueue("jobs")
queues = QueueGroup({"jobs": {"queue": jobs}})
queues.enqueue("jobs", "a")
# A shell that starts the tests in its background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
def worker(handler, **options):
    return Worker(queues, {"a": handler}, idle_wait_seconds=1, shutdown_timeout=20, **options)
def say(what):
    # In one piece, and a line of its own even where another thread is half way through one.
    os.write(1, f"\\n{what}\\n".encode())
def handler(payload):
    say("began")
    time.sleep(1)
    say("ended")
"""


class Process:
    def __init__(self, code: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output: list[str] = []

    def read_until(self, word: str) -> None:
        assert self.popen.stdout is not None
        with self._killed_on_failure():
            for line in self.popen.stdout:
                self.output.append(line)
                if line.strip() == word:
                    return
            raise AssertionError(f"no {word!r}")

    def end(self) -> int:
        with self._killed_on_failure():
            rest, _ = self.popen.communicate(timeout=30)
        self.output.append(rest)
        return self.popen.returncode

    @contextlib.contextmanager
    def _killed_on_failure(self) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self.popen.kill()
            rest, _ = self.popen.communicate()
            error.add_note(self.text + rest)
            raise

    @property
    def text(self) -> str:
        return "".join(self.output)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_end_and_the_process_exits_0(number: signal.Signals) -> None:
    process = Process("""
        worker(handler).run()
        say(f"left {jobs.stats().in_flight}, again {signal.getsignal(signal.SIGTERM)!r}")
    """)
    process.read_until("began")
    process.popen.send_signal(number)
    assert process.end() == 0, process.text
    assert "ended" in process.text
    assert f"left 0, again {signal.SIG_DFL!r}" in process.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(number: signal.Signals) -> None:
    process = Process("""
        def stuck(payload):
            say("began")
            time.sleep(60)
        worker(stuck).run()
    """)
    process.read_until("began")
    process.popen.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.popen.poll() is None
    began = time.monotonic()
    process.popen.send_signal(number)
    assert process.end() == 128 + number
    assert time.monotonic() - began < 2


def test_an_idle_worker_ends_within_the_poll_it_is_in() -> None:
    process = Process("""
        def first(payload): say("began")
        run_worker(queues, {"a": first}, idle_wait_seconds=1)
    """)
    process.read_until("began")
    time.sleep(0.3)
    began = time.monotonic()
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 0, process.text
    assert time.monotonic() - began < 3


def test_a_signal_counts_while_the_queues_are_not_reached_yet() -> None:
    process = Process("""
        class Hanging(MemoryQueue):
            def describe(self):
                say("asked")
                time.sleep(60)
        Worker(QueueGroup({"jobs": {"queue": Hanging("jobs")}}), {"a": handler}).run()
    """)
    process.read_until("asked")
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 0, process.text


def test_handlers_of_the_application_are_restored() -> None:
    process = Process("""
        signal.signal(signal.SIGTERM, mine := lambda *_: say("mine"))
        worker(handler).run(burst=True)
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.set_wakeup_fd(-1) == -1
        os.kill(os.getpid(), signal.SIGTERM)
        say("done")
    """)
    assert process.end() == 0, process.text
    assert "mine" in process.text


def test_outside_the_main_thread_it_works_without_signals() -> None:
    process = Process("""
        ran = threading.Thread(target=lambda: worker(handler).run(burst=True))
        ran.start(); ran.join()
        say(f"left {jobs.stats().in_flight}")
    """)
    assert process.end() == 0, process.text
    assert "left 0" in process.text


def test_ctrl_c_stops_a_worker_in_an_asyncio_program() -> None:
    process = Process("""
        async def handler(payload):
            say("began")
            await asyncio.sleep(0.5)
            say("ended")
        try:
            asyncio.run(worker(handler).run_async())
        except KeyboardInterrupt:
            say(f"interrupted, left {jobs.stats().in_flight}")
    """)
    process.read_until("began")
    process.popen.send_signal(signal.SIGINT)
    assert process.end() == 0, process.text
    assert "ended" in process.text
    assert "interrupted, left 0" in process.text


def test_a_worker_stopped_past_its_timeout_exits_1_and_no_thread_holds_it_up() -> None:
    process = Process("""
        def stuck(payload):
            say("began")
            time.sleep(60)
        Worker(queues, {"a": stuck}, idle_wait_seconds=1, shutdown_timeout=1.5).run()
    """)
    process.read_until("began")
    began = time.monotonic()
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 1, process.text
    assert time.monotonic() - began < 8
    assert "still_running" in process.text


def test_l14_whatever_a_handler_raises_ends_its_job_and_not_the_worker() -> None:
    """Twice each, in every colour: so the thread or the loop of the first is there still."""
    process = Process("""
        raised = []
        def raises(payload):
            raised.append(payload)
            if len(raised) == 18:
                say("all")
            raise {"exit": SystemExit(5), "cancel": asyncio.CancelledError(),
                   "interrupt": KeyboardInterrupt()}[payload["error"]]
        async def aio(payload):
            raises(payload)
        def returns(payload):
            return aio(payload)
        for error in ("exit", "cancel", "interrupt"):
            for colour in ("sync", "async", "returned"):
                for n in range(2):
                    queues.enqueue("jobs", colour, {"error": error})
        handlers = {"sync": raises, "async": aio, "returned": returns, "a": lambda payload: None}
        Worker(queues, handlers, concurrency=2, idle_wait_seconds=1, shutdown_timeout=20).run()
    """)
    process.read_until("all")
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 0, process.text
    assert process.text.count("outcome=retry") == 18


@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize(
    ("ending", "code"),
    [("return", 0), ("sys.exit(7)", 7), ("sys.exit('no')", 1), ("raise ValueError('no')", 1)],
)
def test_a_process_that_a_handler_forked_ends_with_the_handler(
    colour: str, ending: str, code: int
) -> None:
    process = Process(f"""
        {colour} forks(payload):
            child = os.fork()
            if child == 0:
                {ending}
            else:
                end = time.monotonic() + 10
                while True:
                    gone, status = os.waitpid(child, os.WNOHANG)
                    if gone or time.monotonic() > end:
                        break
                    time.sleep(0.05)
                say(f"ended with {{os.waitstatus_to_exitcode(status)}}" if gone else "hangs")
                if not gone:
                    os.kill(child, signal.SIGKILL)
                serving.stop()
        serving = worker(forks)
        serving.run()
    """)
    assert process.end() == 0, process.text
    assert f"ended with {code}" in process.text
    assert process.text.count("worker_stopped") == 1


def test_a_thread_that_an_async_handler_awaits_keeps_no_process_alive() -> None:
    process = Process("""
        async def stuck(payload):
            say("began")
            await asyncio.to_thread(time.sleep, 60)
        Worker(queues, {"a": stuck}, idle_wait_seconds=1, shutdown_timeout=1.5).run()
    """)
    process.read_until("began")
    process.popen.send_signal(signal.SIGTERM)
    started = time.monotonic()
    assert process.end() == 1, process.text
    assert time.monotonic() - started < 20


def test_two_signals_at_once_as_supervisors_send_them_are_one_stop() -> None:
    process = Process("""
        worker(handler).run()
    """)
    process.read_until("began")
    process.popen.send_signal(signal.SIGTERM)
    time.sleep(0.003)
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 0, process.text
    assert "ended" in process.text


def test_a_signal_ends_a_process_that_a_handler_forked() -> None:
    process = Process("""
        def forks(payload):
            child = os.fork()
            if child == 0:
                say("forked")
                time.sleep(60)
            time.sleep(0.5)
            os.kill(child, signal.SIGTERM)
            say(f"ended by {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
            serving.stop()
        serving = worker(forks)
        serving.run()
    """)
    assert process.end() == 0, process.text
    assert "ended by -15" in process.text
