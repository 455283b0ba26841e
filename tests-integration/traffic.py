"""What requests and replies say of the jobs, told apart by their payloads' ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from sqs_proxy import Exchange


class Traffic:
    """What passed a proxy up to one moment. Ids are in the order of the replies."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self.exchanges = list(exchanges)
        self._jobs = {
            message["ReceiptHandle"]: _id_of(message)
            for exchange in self.exchanges
            for message in exchange.reply.messages
        }

    def of(self, *operations: str, queue: str | None = None) -> list[Exchange]:
        return [
            exchange
            for exchange in self.exchanges
            if exchange.request.operation in operations
            and (queue is None or exchange.request.queue == queue)
        ]

    @property
    def receives(self) -> list[Exchange]:
        return self.of("ReceiveMessage")

    @property
    def received(self) -> list[str]:
        return [_id_of(message) for one in self.receives for message in one.reply.messages]

    @property
    def deletes(self) -> list[Exchange]:
        return self.of("DeleteMessage", "DeleteMessageBatch")

    @property
    def deleted(self) -> list[str]:
        """The jobs whose delete was confirmed."""
        return [job for one in self.deletes for job in self.confirmed(one)]

    @property
    def give_backs(self) -> list[Exchange]:
        """Calls that make messages visible at once."""
        return [one for one in self._changes() if _visibility(one) == 0]

    @property
    def given_back(self) -> Counter[str]:
        return Counter(job for one in self.give_backs for job in self.jobs(one))

    @property
    def extensions(self) -> list[Exchange]:
        return [one for one in self._changes() if _visibility(one) > 0]

    def jobs(self, exchange: Exchange) -> list[str]:
        """The jobs whose receipts a request names."""
        return [self._jobs[entry["ReceiptHandle"]] for entry in exchange.request.entries]

    def confirmed(self, exchange: Exchange) -> list[str]:
        """Those of them that the reply says were done."""
        if exchange.reply.status != 200:
            return []
        failed = {entry["Id"] for entry in exchange.reply.failed}
        return [
            job
            for job, entry in zip(self.jobs(exchange), exchange.request.entries, strict=True)
            if entry.get("Id") not in failed
        ]

    def receipts(self, job: str) -> list[str]:
        return [receipt for receipt, one in self._jobs.items() if one == job]

    def _changes(self) -> list[Exchange]:
        return self.of("ChangeMessageVisibility", "ChangeMessageVisibilityBatch")


def _visibility(exchange: Exchange) -> int:
    (seconds,) = {entry["VisibilityTimeout"] for entry in exchange.request.entries}
    return seconds


def _id_of(message: dict[str, Any]) -> str:
    return name_of(message["Body"], message["MessageId"])


def name_of(body: str, message_id: str) -> str:
    """The id in a job's body; what is no job of a test's is known by its message id."""
    try:
        return str(json.loads(body)["payload"]["id"])
    except (ValueError, KeyError, TypeError):
        return message_id
