"""What every queue does, whatever is behind it, as tests that a backend's own test module adopts.

    from jobq.core.testing.conformance import Excused, FifoConformance, queue_maker

    class TestFifoOnSomeServer(FifoConformance):
        excused = (Excused("some server 1.2", "deleting twice is an error", tests={"test_…"}),)

        @pytest.fixture
        def make_queue(self, client):
            return queue_maker(SomeFifoQueue.create, client=client)

`SomeFifoQueue.create` is called with a name and the arguments of `MakeQueue`. `StandardConformance`
is for the other kind. A queue that lives by a clock of its own overrides the fixture `timeline`,
too; without it the suite sleeps, for about 15 s in all. pytest rewrites the suite's assertions if
the plugin of jobq-core is on, as it is where the distribution is installed.

An async queue is seen through a `SyncView`, over a loop in a thread. There it is made, too, so that
it belongs to that loop:

        @pytest.fixture
        def make_queue(self):
            with LoopThread() as loop:
                yield async_queue_maker(AsyncSomeFifoQueue.create, loop)
"""

from jobq.core.testing.conformance.async_view import LoopThread, SyncView
from jobq.core.testing.conformance.bench import Bench, LongPoll, MakeQueue
from jobq.core.testing.conformance.excuses import Excused
from jobq.core.testing.conformance.makers import async_queue_maker, queue_maker
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
    "async_queue_maker",
    "queue_maker",
]
