"""What keeps async clients from following redirects."""

from __future__ import annotations

import pytest

from jobq.core import ConfigurationError
from jobq.sqs.common.aio.http import without_redirects


def test_a_library_in_which_redirects_cannot_be_stopped_is_refused() -> None:
    class RebuiltSession:
        async def send(self, request: object) -> None: ...

    with pytest.raises(ConfigurationError, match=r"RebuiltSession .* aioboto3 below 16"):
        without_redirects(dict, RebuiltSession)
