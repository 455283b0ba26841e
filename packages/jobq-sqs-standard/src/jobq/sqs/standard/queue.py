"""The SQS standard queue over boto3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from jobq.sqs.common.connection import Sdk
from jobq.sqs.common.limits import STANDARD
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


class SqsStandardQueue(SqsQueue):
    """An SQS standard queue, by URL, or by a name that is looked up on first use.

    `client` is a boto3 SQS client or a callable that returns one, asked at each call. Without one
    the queue makes its own, once per process and with its first call, from `endpoint_url`,
    `region_name` and boto3's own configuration, and `close()` closes it.

    A message may be delayed up to 900 s. A group id is passed on: SQS then shares the queue fairly
    among groups, and orders nothing.
    """

    _capabilities = STANDARD
    _sdk = SDK
