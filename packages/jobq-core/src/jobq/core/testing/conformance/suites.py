"""The two suites: what holds for every queue, and what holds for its kind."""

from __future__ import annotations

from jobq.core.testing.conformance.groups import Deduplication, Groups
from jobq.core.testing.conformance.leases import Leases
from jobq.core.testing.conformance.receiving import Receiving
from jobq.core.testing.conformance.redrive import DeadLetters
from jobq.core.testing.conformance.refusals import FifoRefusals, Refusals, StandardRefusals
from jobq.core.testing.conformance.sending import Sending
from jobq.core.testing.conformance.settling import Settling
from jobq.core.testing.conformance.unordered import Unordered
from jobq.core.testing.conformance.waiting import Waiting


class _EveryQueue(Sending, Refusals, Receiving, Leases, Settling, Waiting, DeadLetters):
    pass


class StandardConformance(_EveryQueue, Unordered, StandardRefusals):
    """What a standard queue does. See the package for what an adopter provides."""

    fifo = False


class FifoConformance(_EveryQueue, Groups, Deduplication, FifoRefusals):
    """What a FIFO queue does. See the package for what an adopter provides."""

    fifo = True
