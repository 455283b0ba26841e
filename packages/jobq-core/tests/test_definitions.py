"""Definitions: what can't work is refused where it is written."""

from typing import Any

import pytest

from jobq.core import ConfigurationError, QueueDefinition, QueueGroup, RetryPolicy


def test_a_definition_says_little_and_has_the_defaults_of_the_design() -> None:
    definition = QueueDefinition.from_mapping("a", {"name": "jobs"})

    assert definition == QueueDefinition(
        name="jobs", weight=1, concurrency=None, max_runtime_seconds=3600, sensitive=frozenset()
    )


def test_all_keys_are_read() -> None:
    values: dict[str, Any] = {
        "url": "https://sqs.example/1/jobs",
        "weight": 2.5,
        "concurrency": 3,
        "backend": "memory",
        "visibility_timeout": 43_200,
        "max_runtime_seconds": 0.5,
        "claim_size": 10,
        "retry": RetryPolicy(max_attempts=3),
        "dead_letter": "jobs-dead",
        "log_payload": True,
        "sensitive": ["password", "token"],
    }
    definition = QueueDefinition.from_mapping("a", values)

    assert {key: getattr(definition, key) for key in values} == {
        **values,
        "sensitive": frozenset({"password", "token"}),
    }


@pytest.mark.parametrize("seconds", [0, 0.5, 43_200.5, 43_201])
def test_l11_a_visibility_timeout_of_0_or_over_43200_is_refused_at_construction(
    seconds: float,
) -> None:
    said = f"visibility_timeout must be 1 to 43200 seconds, not {seconds}"
    with pytest.raises(ConfigurationError, match=said):
        QueueDefinition(name="jobs", visibility_timeout=seconds)
    with pytest.raises(ConfigurationError, match=f"queue 'a': {said}"):
        QueueGroup.build(
            queues={"a": {"name": "jobs", "backend": "memory", "visibility_timeout": seconds}}
        )


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({}, "exactly one of 'queue', 'name' and 'url', not none of them"),
        ({"name": "a", "url": "b"}, "not 'name' and 'url'"),
        ({"name": ""}, "name must be a non-empty string, not ''"),
        ({"url": 3}, "url must be a non-empty string, not 3"),
        ({"name": "a", "backend": ""}, "backend must be"),
        ({"name": "a", "dead_letter": 7}, "dead_letter must be"),
        ({"name": "a", "dead_letter": "a"}, "dead_letter must be another queue .* not 'a'"),
        ({"name": "a", "log_payload": "yes"}, "log_payload must be True or False, not 'yes'"),
        ({"name": "a", "weight": 0}, "weight must be a number above 0, not 0"),
        ({"name": "a", "weight": float("nan")}, "weight must be"),
        ({"name": "a", "weight": float("inf")}, "weight must be"),
        ({"name": "a", "weight": "5"}, "weight must be .* not '5'"),
        ({"name": "a", "weight": True}, "weight must be"),
        ({"name": "a", "concurrency": 0}, "concurrency must be a whole number, at least 1, not 0"),
        ({"name": "a", "concurrency": 1.5}, "concurrency must be"),
        ({"name": "a", "claim_size": 0}, "claim_size must be a whole number, 1 to 10, not 0"),
        ({"name": "a", "claim_size": 11}, "claim_size must be .* not 11"),
        ({"name": "a", "visibility_timeout": 0}, "visibility_timeout must be 1 to 43200 .* not 0"),
        ({"name": "a", "visibility_timeout": 43_201}, "not 43201"),
        ({"name": "a", "visibility_timeout": "30"}, "not '30'"),
        ({"name": "a", "max_runtime_seconds": 0}, "max_runtime_seconds must be .* not 0"),
        ({"name": "a", "max_runtime_seconds": None}, "max_runtime_seconds must be .* not None"),
        ({"name": "a", "retry": {"max_attempts": 3}}, "retry must be a RetryPolicy"),
        ({"name": "a", "sensitive": "password"}, "sensitive must be a collection"),
        ({"name": "a", "sensitive": 3}, "sensitive must be a collection"),
        ({"name": "a", "sensitive": ["pin", 7]}, "a key in sensitive must be a string.* not 7"),
        ({"name": "a", "wait": 1, 7: 2}, "unknown key '7', 'wait'; known are backend, claim_size"),
    ],
)
def test_a_definition_that_cannot_work_is_refused_with_the_queue_key_and_value(
    values: Any, what: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"queue 'mine': .*{what}"):
        QueueDefinition.from_mapping("mine", values)
