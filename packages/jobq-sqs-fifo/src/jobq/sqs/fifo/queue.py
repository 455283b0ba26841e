"""The SQS FIFO queue over boto3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from jobq.sqs.common.connection import Sdk
from jobq.sqs.common.limits import FIFO
from jobq.sqs.common.queue import SqsQueue

if TYPE_CHECKING:
    from jobq.sqs.common.client import ClientOptions


def make_client(options: ClientOptions) -> Any:
    """An SQS client on a session of its own: boto3's default one isn't safe to make clients with
    from several threads at once.
    """
    session: Any = boto3.session.Session()
    return session.client(
        "sqs",
        region_name=options.region_name,
        endpoint_url=options.endpoint_url,
        config=Config(**options.config),
    )


SDK = Sdk(make_client=make_client, raised=(BotoCoreError, ClientError))


class SqsFifoQueue(SqsQueue):
    """An SQS FIFO queue, by URL, or by a name that is looked up on first use.

    `client` is a boto3 SQS client or a callable that returns one, asked at each call. Without one
    the queue makes its own, once per process and with its first call, from `endpoint_url`,
    `region_name` and boto3's own configuration, and `close()` closes it.

    Every message needs a group id, and its group is received in order, one batch at a time. A send
    carries the message's deduplication id, or a fresh one. A receive whose reply was lost is asked
    again with the next claim, so that its messages don't stay hidden.
    """

    _capabilities = FIFO
    _sdk = SDK
