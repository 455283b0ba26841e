"""The SQS standard queue over boto3."""

from __future__ import annotations

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from jobq.core.limits import STANDARD
from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.common.sdk import Sdk

SDK = Sdk(
    core=botocore.session.get_session,
    session=boto3.session.Session,
    config=Config,
    raised=(BotoCoreError, ClientError, ResponseParserError),
)


class SqsStandardQueue(SqsQueue):
    """An SQS standard queue, by URL, or by a name that is looked up on first use.

    `client` is a boto3 SQS client, or a callable that makes one. Without one the queue makes its
    own with its first call, from `endpoint_url`, `region_name` and boto3's own configuration, and
    `close()` closes it. Either way one is made once per process, and anew only while no credentials
    were found.

    A message may be delayed up to 900 s. A group id is passed on: SQS then shares the queue fairly
    among groups, and orders nothing.
    """

    _capabilities = STANDARD
    _sdk = SDK
