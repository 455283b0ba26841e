"""What settings make of the names and definitions of queues."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limited
from hypothesis import strategies as st

from jobq.core import ConfigurationError, QueueDefinition, QueueGroup
from jobq.core.memory import MemoryQueue
from jobq.core.settings import Settings, read_settings

REGION = {"JOBQ_SQS_REGION": "eu-west-1"}


def settings(backend: str, prefix: str = "staging-") -> Settings:
    return read_settings(
        {**REGION, "JOBQ_CONNECTION": backend, "JOBQ_SQS_QUEUE_PREFIX": prefix}, None
    )


@pytest.mark.parametrize(
    ("backend", "name", "full", "kind"),
    [
        ("sqs", "jobs", "staging-jobs", None),
        ("sqs", "jobs.fifo", "staging-jobs.fifo", None),
        ("sqs-fifo", "jobs", "staging-jobs.fifo", "sqs-fifo"),
        ("sqs-fifo", "jobs.fifo", "staging-jobs.fifo", "sqs-fifo"),
        ("sqs-standard", "jobs", "staging-jobs", "sqs-standard"),
        ("memory", "jobs", "staging-jobs", "memory"),
        ("memory", "jobs.fifo", "staging-jobs.fifo", "memory"),
    ],
)
def test_the_prefix_goes_before_a_name_and_the_suffix_is_the_backend_s(
    backend: str, name: str, full: str, kind: str | None
) -> None:
    expected = QueueDefinition(name=full, backend=kind, visibility_timeout=300)
    assert settings(backend).define({"a": name}) == {"a": expected}
    assert settings(backend).define([name]) == {name: expected}
    assert settings(backend).define({"a": {"name": name}}) == {"a": expected}
    assert settings(backend).define({"a": QueueDefinition(name=name)}) == {"a": expected}


@pytest.mark.parametrize(
    ("backend", "url"),
    [
        ("sqs", "https://sqs.example/1/jobs"),
        ("sqs", "https://sqs.example/1/jobs.fifo"),
        ("sqs-fifo", "https://sqs.example/1/jobs.fifo"),
        ("sqs-standard", "https://sqs.example/1/jobs"),
        ("memory", "https://sqs.example/1/jobs"),
    ],
)
def test_a_url_is_never_changed(backend: str, url: str) -> None:
    assert settings(backend).define({"a": url})["a"].url == url
    assert settings(backend).define({"a": {"url": url}})["a"].url == url


@pytest.mark.parametrize(
    ("backend", "queue", "said"),
    [
        (
            "sqs-standard",
            "jobs.fifo",
            (
                "queue 'a': 'jobs.fifo' is a FIFO queue's name, and its backend is 'sqs-standard': "
                "use another queue or backend; with JOBQ_CONNECTION=sqs the suffix of each queue "
                "picks it"
            ),
        ),
        ("sqs-standard", "https://a.example/1/jobs.fifo", "is a FIFO queue's URL"),
        ("sqs-fifo", "https://me:pw@a.example/1/jobs", "'https://***@a.example/1/jobs' is no FIFO"),
        ("sqs-standard", {"name": "jobs", "dead_letter": "dead.fifo"}, "'dead.fifo' is a FIFO"),
        ("sqs", "two words", "queue 'a': queue name 'staging-two words': SQS takes 1 to 80"),
        ("memory", "x" * 73, "SQS takes 1 to 80"),
        ("sqs", {"name": "jobs", "colour": "red"}, "queue 'a': unknown key 'colour'"),
        ("sqs", 7, "queue 'a' must be a name, a URL or a mapping such as {'name': 'my-app-jobs'}"),
    ],
)
def test_a_queue_that_does_not_fit_its_backend_is_refused(
    backend: str, queue: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        settings(backend).define({"a": queue})


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ("jobs", "queues must be names, such as ['my-app-jobs'], or a mapping"),
        (7, "queues must be names"),
        ([7], "7 is no queue's name"),
        (["https://a.example/1/jobs"], "'https://a.example/1/jobs' is no queue's name"),
    ],
)
def test_what_holds_no_names_is_refused(queues: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        settings("sqs").define(queues)


def test_what_a_definition_says_for_itself_counts_before_the_environment() -> None:
    queues = {"a": {"name": "jobs", "backend": "memory", "visibility_timeout": 5, "weight": 3}}
    assert settings("sqs-fifo").define(queues)["a"] == QueueDefinition(
        name="staging-jobs", backend="memory", visibility_timeout=5, weight=3
    )


def test_a_dead_letter_queue_is_named_as_its_queue_is() -> None:
    queues = {"a": {"name": "jobs", "dead_letter": "dead"}}
    assert settings("sqs-fifo").define(queues)["a"].dead_letter == "staging-dead.fifo"
    by_url = {"a": {"name": "jobs", "dead_letter": "https://sqs.example/1/dead"}}
    assert settings("sqs").define(by_url)["a"].dead_letter == "https://sqs.example/1/dead"


def test_a_queue_made_by_hand_stays_as_it_is() -> None:
    queue = MemoryQueue("jobs")
    defined = settings("sqs-fifo").define({"a": {"queue": queue, "dead_letter": "dead"}})["a"]
    assert defined == QueueDefinition(queue=queue, dead_letter="dead", visibility_timeout=300)


@limited(max_examples=30)  # each looks at what is installed
@given(name=st.from_regex(r"[A-Za-z0-9_-]{1,60}", fullmatch=True), fifo=st.booleans())
def test_over_one_backend_a_name_leads_to_the_same_queue_with_and_without_its_suffix(
    name: str, *, fifo: bool
) -> None:
    backend = "sqs-fifo" if fifo else "sqs"
    (defined,) = settings(backend).define([name]).values()
    assert defined.name == f"staging-{name}{'.fifo' * fifo}"
    assert settings("sqs-fifo").define({"a": name}) == settings("sqs-fifo").define(
        {"a": f"{name}.fifo"}
    )


def test_the_definitions_make_a_group() -> None:
    group = QueueGroup(settings("memory").define(["jobs", "ledger.fifo"]))
    assert group.names == ("jobs", "ledger.fifo")
    assert group.enqueue("ledger.fifo", "a", message_group_id="g")
