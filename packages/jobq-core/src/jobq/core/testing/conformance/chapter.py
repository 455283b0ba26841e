"""What all parts of the suite share: the fixtures that an adopter provides or overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from jobq.core.testing.conformance.bench import Bench, MakeQueue
from jobq.core.testing.conformance.timeline import RealTime, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.testing.conformance.excuses import Excused


class Chapter:
    """Some rules of a queue, as tests that get a `bench`."""

    fifo: ClassVar[bool]
    excused: ClassVar[Sequence[Excused]] = ()

    @pytest.fixture
    def make_queue(self) -> MakeQueue:
        raise NotImplementedError("a test class that adopts the suite defines `make_queue`")

    @pytest.fixture
    def timeline(self) -> Timeline:
        return RealTime()

    @pytest.fixture
    def bench(self, make_queue: MakeQueue, timeline: Timeline) -> Bench:
        return Bench(fifo=self.fifo, make_queue=make_queue, timeline=timeline)

    @pytest.fixture(autouse=True)
    def _excuses(self, request: pytest.FixtureRequest) -> None:
        function: str = request.node.originalname
        for excuse in self.excused:
            if unknown := excuse.unknown(type(self)):
                pytest.fail(f"excused for {excuse.server}, but not in the suite: {unknown}")
            if excuse.covers(request.node.name, function):
                reason = f"{excuse.server}: {excuse.reason}"
                request.applymarker(pytest.mark.xfail(reason=reason, strict=excuse.always))
