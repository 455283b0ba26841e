"""The SQS standard queue over aioboto3, and its entry point in `jobq.async_backends`.

Importing this raises `BackendNotInstalledError` where aioboto3 is missing.
"""

from __future__ import annotations

from jobq.core import BackendNotInstalledError
from jobq.core.limits import STANDARD
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
        f'async SQS standard queues need aioboto3 ({error}): pip install "jobq-sqs-standard[aio]"'
    ) from error

SDK = Sdk(
    core=get_session,
    session=aioboto3.Session,
    config=without_redirects(AioConfig, AIOHTTPSession),
    raised=(BotoCoreError, ClientError, ResponseParserError),
)


class AsyncSqsStandardQueue(AsyncSqsQueue):
    """An SQS standard queue, by URL, or by a name that is looked up on first use.

    `client` is an aioboto3 SQS client that was entered, or a callable that returns an async context
    manager of one, such as `lambda: session.client("sqs")`. Without one the queue opens its own,
    with its first call, from `endpoint_url`, `region_name` and boto3's own configuration.
    `close()` closes what the queue opened. A queue belongs to the loop that runs where it is made,
    else to that of its first call, and refuses any other.

    A message may be delayed up to 900 s. A group id is passed on: SQS then shares the queue fairly
    among groups, and orders nothing.

    A receive that is cancelled may lose its reply: what SQS gave by then stays hidden until its
    visibility timeout is over.
    """

    _capabilities = STANDARD
    _sdk = SDK


backend = AsyncSqsBackend(AsyncSqsStandardQueue, sdk=SDK, fifo=False)
