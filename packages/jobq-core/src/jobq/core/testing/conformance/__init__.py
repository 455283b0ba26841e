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
fixture `timeline`, too; without it the suite sleeps, for about 15 s in all. An async queue is run
through a synchronous view of it. pytest rewrites the suite's assertions if the plugin of jobq-core
is on, as it is where the distribution is installed.
"""

from jobq.core.testing.conformance.bench import Bench, LongPoll, MakeQueue
from jobq.core.testing.conformance.excuses import Excused
from jobq.core.testing.conformance.suites import FifoConformance, StandardConformance
from jobq.core.testing.conformance.timeline import ManualTime, RealTime, Timeline

__all__ = [
    "Bench",
    "Excused",
    "FifoConformance",
    "LongPoll",
    "MakeQueue",
    "ManualTime",
    "RealTime",
    "StandardConformance",
    "Timeline",
]
