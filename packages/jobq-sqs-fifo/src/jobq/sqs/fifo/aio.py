"""The SQS FIFO queue over aioboto3, and its entry point in `jobq.async_backends`.

Importing this raises `BackendNotInstalledError` where aioboto3 is missing.
"""

from __future__ import annotations

from jobq.core import BackendNotInstalledError
from jobq.core.limits import FIFO
from jobq.sqs.common.aio.backend import AsyncSqsBackend
from jobq.sqs.common.aio.http import without_redirects
from jobq.sqs.common.aio.queue import AsyncSqsQueue
from jobq.sqs.common.sdk import Sdk

try:
    import aioboto3
    from aiobotocore.config import AioConfig
    from aiobotocore.httpsession import AIOHTTPSession
    from aiobotocore.session import get_session
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
except ImportError as error:
    raise BackendNotInstalledError(
        f'async SQS FIFO queues need aioboto3 ({error}): pip install "jobq-sqs-fifo[aio]"'
    ) from error

SDK = Sdk(
    core=get_session,
    session=aioboto3.Session,
    config=without_redirects(AioConfig, AIOHTTPSession),
    raised=(BotoCoreError, ClientError, ResponseParserError),
)


class AsyncSqsFifoQueue(AsyncSqsQueue):
    """An SQS FIFO queue, by URL, or by a name that is looked up on first use.

    `client` is an aioboto3 SQS client that was entered, or a callable that returns an async context
    manager of one, such as `lambda: session.client("sqs")`. Without one the queue opens its own,
    with its first call, from `endpoint_url`, `region_name` and boto3's own configuration.
    `close()` closes what the queue opened. A queue belongs to the loop that runs where it is made,
    else to that of its first call, and refuses any other.

    Every message needs a group id, and its group is received in order, one batch at a time. A send
    carries the message's deduplication id, or a fresh one. A receive whose reply was lost is asked
    again with the next claim, so that its messages don't stay hidden.

    A receive that is cancelled may lose its reply; the next claims ask for it again, and for what
    earlier requests of the same `claim_batch` had brought.
    """

    _capabilities = FIFO
    _sdk = SDK


backend = AsyncSqsBackend(AsyncSqsFifoQueue, sdk=SDK, fifo=True)
