"""The pytest plugin of jobq-core: the fixture `job_queues`."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("jobq.core.testing.conformance")
