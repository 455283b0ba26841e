"""What an operator does: redrive, purge, and what a diagnosis finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jobq.core import BackendError, ConfigurationError
from jobq.core.interfaces import MoveProgress
from jobq.sqs.common import diagnosis, moving
from jobq.sqs.common.addresses import Address

if TYPE_CHECKING:
    from conftest import Script

DEAD = Address("https://sqs/1/dead")
ARN = {"Attributes": {"VisibilityTimeout": "30", "QueueArn": "arn:aws:sqs:r:1:dead"}}
POLICY = {"deadLetterTargetArn": "arn:aws:sqs:r:1:dead", "maxReceiveCount": 5}


def settings(**more: Any) -> dict[str, str]:
    return {"VisibilityTimeout": "30", "RedrivePolicy": json.dumps(POLICY), **more}


class TestMoves:
    def test_without_a_destination_each_message_goes_back(self, script: Script) -> None:
        flow = moving.start(DEAD, destination=None, per_second=None)
        assert script.run(flow, [ARN, {"TaskHandle": "t"}]) == "t"
        assert script.calls[-1].arguments == {"SourceArn": "arn:aws:sqs:r:1:dead"}

    def test_a_destination_may_be_an_arn(self, script: Script) -> None:
        flow = moving.start(DEAD, destination="arn:aws:sqs:r:1:other", per_second=50)
        script.run(flow, [ARN, {"TaskHandle": "t"}])
        assert script.calls[-1].arguments == {
            "SourceArn": "arn:aws:sqs:r:1:dead",
            "DestinationArn": "arn:aws:sqs:r:1:other",
            "MaxNumberOfMessagesPerSecond": 50,
        }

    def test_more_than_500_a_second_are_refused(self, script: Script) -> None:
        with pytest.raises(ConfigurationError, match="1 to 500 messages, not 501"):
            script.run(moving.start(DEAD, destination=None, per_second=501))

    def test_a_running_move_is_known_by_its_handle(self, script: Script) -> None:
        moves = [
            {"Status": "COMPLETED", "StartedTimestamp": 1},
            {
                "TaskHandle": "t",
                "Status": "RUNNING",
                "StartedTimestamp": 2,
                "ApproximateNumberOfMessagesMoved": 4,
                "ApproximateNumberOfMessagesToMove": 9,
            },
        ]
        found = script.run(moving.progress(DEAD, "t"), [ARN, {"Results": moves}])
        assert found == MoveProgress(task="t", status="running", moved=4, total=9)

    def test_one_that_ended_is_the_newest_without_a_handle(self, script: Script) -> None:
        moves = [
            {"Status": "FAILED", "StartedTimestamp": 5, "FailureReason": "gone"},
            {"Status": "COMPLETED", "StartedTimestamp": 1},
        ]
        found = script.run(moving.progress(DEAD, "t"), [ARN, {"Results": moves}])
        assert (found.status, found.failure) == ("failed", "gone")

    def test_an_unknown_move_is_an_error(self, script: Script) -> None:
        with pytest.raises(BackendError, match="'dead' knows no move 't'"):
            script.run(moving.progress(DEAD, "t"), [ARN, {}])


class TestDiagnosis:
    def test_a_sound_queue_has_one_good_finding(self) -> None:
        [found] = diagnosis.findings(
            "orders", settings(), settings(MessageRetentionPeriod="1209600")
        )
        assert found.severity == "ok"

    @pytest.mark.parametrize(
        ("own", "dead_letter", "severity", "text"),
        [
            ({"RedrivePolicy": ""}, None, "warning", "no redrive policy"),
            ({"VisibilityTimeout": "2"}, {}, "warning", "visibility timeout 2 s"),
            ({}, {"MessageRetentionPeriod": "60"}, "warning", "retention 60 s isn't above"),
            ({}, {"ApproximateNumberOfMessages": "7"}, "warning", "about 7 messages"),
            ({}, BackendError("KmsAccessDenied: no"), "error", "KmsAccessDenied"),
            (
                {"RedrivePolicy": json.dumps({**POLICY, "maxReceiveCount": "1"})},
                {},
                "warning",
                "maxReceiveCount 1",
            ),
            (
                {"RedrivePolicy": json.dumps({"deadLetterTargetArn": "arn:x:dead.fifo"})},
                {},
                "error",
                "dead.fifo is of the other kind",
            ),
        ],
    )
    def test_what_is_wrong_is_found_with_a_remedy(
        self, own: dict[str, str], dead_letter: Any, severity: str, text: str
    ) -> None:
        if isinstance(dead_letter, dict):
            dead_letter = settings(**{"MessageRetentionPeriod": "1209600", **dead_letter})
        [found] = diagnosis.findings("orders", settings(**own), dead_letter)
        assert found.severity == severity
        assert text in found.problem
        assert found.remedy

    def test_a_queue_that_cannot_be_asked_is_a_finding(self, script: Script) -> None:
        [found] = script.run(diagnosis.diagnose(DEAD), [BackendError("AccessDenied", denied=True)])
        assert found.severity == "error"
