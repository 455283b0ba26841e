"""jobq from one end to the other: two queues, some jobs, a worker that runs them.

    uv run examples/quickstart.py

With nothing configured it starts an SQS server in its own process. With JOBQ_SQS_ENDPOINT=URL, or
--region REGION for AWS, it uses that SQS, and the AWS credentials of your environment.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import boto3
import structlog
from botocore.exceptions import BotoCoreError, ClientError

from jobq.core import ConfigurationError, JobqError, QueueGroup, RetryPolicy, current_job
from jobq.worker import Handler, Worker
from jobq.worker.cli.local import local_environment, local_sqs

# --- Handlers: plain functions that take a job's payload, sync and async side by side. ---

booked: list[int] = []


async def send_welcome_email(payload: dict[str, Any]) -> None:
    await asyncio.sleep(0.2)
    say(f"wrote to user {payload['user_id']}")


def charge_card(payload: dict[str, Any]) -> None:
    job = current_job()
    if job is not None and job.job.receive_count == 1:
        raise ConnectionError("the bank did not answer")
    say(f"charged order {payload['order']}")


def book(payload: dict[str, Any]) -> None:
    time.sleep(0.1)
    booked.append(payload["entry"])
    say(f"booked entry {payload['entry']} of account {payload['account']}")


handlers = {
    "send_welcome_email": send_welcome_email,
    # Comes back 1 s after it failed, then 2 s, 4 s … where it fails again.
    "charge_card": Handler(charge_card, retry=RetryPolicy(base_delay=1, jitter=False)),
    "book": book,
}


def run(client: Any) -> bool:
    """Make the queues, send the jobs, work them off; tells whether all came out as it should."""
    with ExitStack() as stack:
        # Yours are made by whatever makes the rest of your infrastructure.
        name = f"jobq-quickstart-{uuid4().hex[:8]}"
        urls = {
            "default": client.create_queue(QueueName=name)["QueueUrl"],
            "ledger": client.create_queue(
                QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"}
            )["QueueUrl"],
        }
        for url in urls.values():
            stack.callback(client.delete_queue, QueueUrl=url)

        # --- The producer: a group of queues under short names. ---
        queues = QueueGroup.build(
            client=client,
            queues={
                "default": {"url": urls["default"]},
                "ledger": {"url": urls["ledger"]},  # ends in .fifo, so it keeps order
            },
        )
        queues.enqueue("default", "send_welcome_email", {"user_id": 42})
        queues.enqueue("default", "charge_card", {"order": 7})
        for entry in (1, 2, 3):
            queues.enqueue(
                "ledger", "book", {"account": "a-1", "entry": entry}, message_group_id="a-1"
            )
        # Any program may send to a queue, and this one got it wrong.
        client.send_message(QueueUrl=urls["default"], MessageBody="Hello?")
        say("a message that is no job: sent to 'default' by another program")

        # --- The worker: until the queues are empty; without burst, until it is stopped. ---
        Worker(queues, handlers, concurrency=4).run(burst=True)

    return report()


# --- What it prints: jobq logs with structlog, and these few lines stand in for your setup. ---

started_at = time.monotonic()
finished: list[dict[str, Any]] = []


def say(text: str) -> None:
    print(f"{time.monotonic() - started_at:5.1f} s  {text}", flush=True)


def tell(_logger: object, _method: str, line: Any) -> Any:
    """A structlog processor that tells of jobs and keeps how each delivery ended."""
    what = f"{line.get('job_type', 'a message')} {line.get('message_id', '')[:8]}"
    match line["event"]:
        case "job_enqueued":
            say(f"{what}: sent to {line['queue']!r}")
        case "job_failed":
            say(f"{what}: raised {line['exception'].splitlines()[-1]}")
        case "job_finished":
            finished.append(line)
            say(f"{what}: {line['outcome']}, receive {line['receive_count']}")
        case _:
            pass
    raise structlog.DropEvent


def report() -> bool:
    histories: dict[tuple[str, str], list[str]] = {}
    for line in finished:
        key = (line["message_id"], line.get("job_type", "(no job)"))
        histories.setdefault(key, []).append(line["outcome"])
    print("\nWhat became of each message:")
    for (message_id, job_type), outcomes in histories.items():
        print(f"  {message_id[:8]}  {job_type:20}{', then '.join(outcomes)}")
    print(f"The ledger's group came in the order {booked}.")
    expected = [["malformed"], ["retry", "success"], *[["success"]] * 4]
    as_expected = booked == [1, 2, 3] and sorted(histories.values()) == expected
    if not as_expected:
        print("That differs from what this file does unchanged, so it exits 1.")
    return as_expected


def main() -> int:
    parser = argparse.ArgumentParser(description="jobq from one end to the other.")
    parser.add_argument("--region", help="use the SQS of AWS in this region")
    region = parser.parse_args().region
    endpoint = os.environ.get("JOBQ_SQS_ENDPOINT")
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, tell])
    with ExitStack() as stack:
        if not region and not endpoint:
            endpoint = stack.enter_context(local_sqs())
            # Nothing of your own set-up leads elsewhere.
            proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
            for name in [*proxies, *(name for name in os.environ if name.startswith("AWS_"))]:
                del os.environ[name]
            os.environ |= local_environment(endpoint)
        region = region or os.environ.get("JOBQ_SQS_REGION")
        say(f"using the SQS at {endpoint or region}")
        try:
            client: Any = boto3.client("sqs", region_name=region, endpoint_url=endpoint)  # pyright: ignore[reportUnknownMemberType]
            return 0 if run(client) else 1
        except ConfigurationError as error:
            print(f"These settings can't work: {error}", file=sys.stderr)
            return 1
        except (JobqError, BotoCoreError, ClientError) as error:
            print(f"This SQS can't be used: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
