"""What every queue does, whatever is behind it, as tests that a backend's own test module adopts.

    from jobq.core.testing.conformance import Excused, FifoConformance

    class TestFifoOnSomeServer(FifoConformance):
        excused = (Excused("some server 1.2", "deleting twice is an error", tests={"test_…"}),)

        @pytest.fixture
        def make_queue(self):
            def make(*, visibility_timeout=30, dead_letter_queue=None, max_receive_count=None):
                ...  # a new, empty FIFO queue
            return make

`StandardConformance` is for the other kind. A queue that lives by a clock of its own overrides the
fixture `timeline`, too; without it the suite sleeps, for about 15 s in all. pytest rewrites the
suite's assertions if the plugin of jobq-core is on, as it is where the distribution is installed.

An async queue is seen through a `SyncView`, over a loop in a thread. There it is made, too, so that
it belongs to that loop:

        @pytest.fixture
        def loop(self):
            with LoopThread() as loop:
                yield loop

        @pytest.fixture
        def make_queue(self, loop):
            def make(*, visibility_timeout=30, dead_letter_queue=None, max_receive_count=None):
                dead = dead_letter_queue.queue if dead_letter_queue else None
                return SyncView(loop.call(AsyncSomeQueue.create, "a-new-name", …), loop)
            return make
"""

from jobq.core.testing.conformance.async_view import LoopThread, SyncView
from jobq.core.testing.conformance.bench import Bench, LongPoll, MakeQueue
from jobq.core.testing.conformance.excuses import Excused
from jobq.core.testing.conformance.suites import FifoConformance, StandardConformance
from jobq.core.testing.conformance.timeline import ManualTime, RealTime, Timeline

__all__ = [
    "Bench",
    "Excused",
    "FifoConformance",
    "LongPoll",
    "LoopThread",
    "MakeQueue",
    "ManualTime",
    "RealTime",
    "StandardConformance",
    "SyncView",
    "Timeline",
]
