"""The SQS FIFO queue over boto3."""

from __future__ import annotations

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from jobq.core.limits import FIFO
from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.common.sdk import Sdk

SDK = Sdk(
    core=botocore.session.get_session,
    session=boto3.session.Session,
    config=Config,
    raised=(BotoCoreError, ClientError, ResponseParserError),
)


class SqsFifoQueue(SqsQueue):
    """An SQS FIFO queue, by URL, or by a name that is looked up on first use.

    `client` is a boto3 SQS client, or a callable that makes one. Without one the queue makes its
    own with its first call, from `endpoint_url`, `region_name` and boto3's own configuration, and
    `close()` closes it. Either way one is made once per process, and anew only while no credentials
    were found.

    Every message needs a group id, and its group is received in order, one batch at a time. A send
    carries the message's deduplication id, or a fresh one. A receive whose reply was lost is asked
    again with the next claim, so that its messages don't stay hidden.
    """

    _capabilities = FIFO
    _sdk = SDK
