"""What `explain` says of an environment, right or wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_settings import REGION, REPORTS, SECRET, WRONG

from jobq.core import ConfigurationError
from jobq.core.setting_keys import CONNECTION_NAME, KEYS
from jobq.core.setting_sources import Setting, explain
from jobq.core.settings import read_settings

VARIABLES = [f"JOBQ_{key.name}" for key in KEYS]


def explained(environment: dict[str, str], connection: str | None = None) -> dict[str, Setting]:
    return {setting.key: setting for setting in explain(environment, connection)}


def test_every_key_is_there_with_its_value_and_where_it_came_from() -> None:
    found = explain({**REGION, "JOBQ_MAX_ATTEMPTS": " 4 ", "JOBQ_SQS_PLAINTEXT": "True"})
    assert [one.key for one in found] == [CONNECTION_NAME, *VARIABLES]
    assert {one.key: (one.value, one.source) for one in found} == {
        "JOBQ_CONNECTION_NAME": ("default", "default"),
        "JOBQ_CONNECTION": ("sqs", "default"),
        "JOBQ_SQS_REGION": ("eu-west-1", "JOBQ_SQS_REGION"),
        "JOBQ_SQS_QUEUE_PREFIX": (None, "not set"),
        "JOBQ_SQS_ENDPOINT": (None, "not set"),
        "JOBQ_SQS_PLAINTEXT": ("True", "JOBQ_SQS_PLAINTEXT"),
        "JOBQ_SQS_TIMEOUT": ("30", "default"),
        "JOBQ_VISIBILITY_TIMEOUT_SECONDS": ("300", "default"),
        "JOBQ_MAX_ATTEMPTS": ("4", "JOBQ_MAX_ATTEMPTS"),
        "JOBQ_RETRY_BASE_DELAY_SECONDS": (None, "not set"),
    }
    assert [one for one in found if one.problem or one.note] == []


def test_the_name_of_the_connection_comes_from_the_argument_or_the_environment() -> None:
    environment = {**REGION, **REPORTS, "JOBQ_CONNECTION_NAME": "Reports"}
    for connection, source in ((None, "JOBQ_CONNECTION_NAME"), ("reports", "argument")):
        named = explained(environment, connection)[CONNECTION_NAME]
        assert (named.value, named.source) == ("reports", source)


def test_a_key_that_a_named_connection_shares_names_the_plain_one_as_its_source() -> None:
    found = explained({**REPORTS, "JOBQ_MAX_ATTEMPTS": "4", "JOBQ_SQS_TIMEOUT": "99"}, "reports")
    attempts, timeout = found["JOBQ_REPORTS_MAX_ATTEMPTS"], found["JOBQ_REPORTS_SQS_TIMEOUT"]
    assert (attempts.value, attempts.source) == ("4", "JOBQ_MAX_ATTEMPTS")
    assert (timeout.value, timeout.source) == ("30", "default")


@pytest.mark.parametrize("environment", [environment for environment, _ in WRONG])
def test_a_wrong_environment_is_explained_in_the_words_that_refuse_it(
    environment: dict[str, str],
) -> None:
    environment = {**REGION, **environment}
    with pytest.raises(ConfigurationError) as refused:
        read_settings(environment)
    problems = [one.problem for one in explain(environment) if one.problem is not None]
    assert problems == [str(refused.value)]


def test_each_problem_stands_with_its_key_and_the_rest_is_there_all_the_same() -> None:
    environment = {"JOBQ_SQS_TIMEOUT": "5", "JOBQ_SQS_QUEUE_PREFX": "a", "AWS_ENDPOINT_URL": "b"}
    found = explained(environment)
    assert [key for key, one in found.items() if one.problem] == [
        "JOBQ_SQS_REGION",
        "JOBQ_SQS_TIMEOUT",
        "AWS_ENDPOINT_URL",
        "JOBQ_SQS_QUEUE_PREFX",
    ]
    assert found["JOBQ_SQS_TIMEOUT"].value == "5"
    assert found["JOBQ_VISIBILITY_TIMEOUT_SECONDS"].value == "300"


def test_variables_of_aws_that_are_set_are_named_and_those_that_do_not_count_say_so() -> None:
    foreign = {
        "AWS_ENDPOINT_URL": "https://me:pw@a.example",
        "AWS_REGION": "us-east-2",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_PROFILE": "",
    }
    found = explained({**REGION, "JOBQ_SQS_ENDPOINT": "https://b.example", **foreign})
    aws = {key: (one.value, one.note) for key, one in found.items() if key.startswith("AWS_")}
    assert aws == {
        "AWS_ENDPOINT_URL": ("https://***@a.example", "not used: JOBQ_SQS_ENDPOINT alone counts"),
        "AWS_REGION": ("us-east-2", "not used: JOBQ_SQS_REGION alone counts"),
        "AWS_SECRET_ACCESS_KEY": ("***", "the SDK looks here for credentials"),
    }


def test_where_no_queue_is_of_sqs_no_credentials_are_looked_for() -> None:
    found = explained({"JOBQ_CONNECTION": "memory", "AWS_SECRET_ACCESS_KEY": "secret"})
    assert "AWS_SECRET_ACCESS_KEY" not in found


@given(secret=SECRET)
def test_no_password_and_no_credential_is_shown(secret: str) -> None:
    url = f"https://me:{secret}@a.example"
    keys = ("JOBQ_SQS_ENDPOINT", "AWS_ENDPOINT_URL", "JOBQ_CONNECTION", "JOBQ_SQS_ENDPOINT_URL")
    for key in (*keys, "AWS_SECRET_ACCESS_KEY"):
        assert secret not in repr(explain({**REGION, key: url}))


@given(
    st.dictionaries(st.sampled_from([*VARIABLES, CONNECTION_NAME, "AWS_ENDPOINT_URL"]), st.text()),
    st.none() | st.text(),
)
def test_any_environment_is_explained_and_refused_where_it_has_a_problem(
    environment: dict[str, str], connection: str | None
) -> None:
    problems = [one.problem for one in explain(environment, connection) if one.problem]
    try:
        read_settings(environment, connection)
    except ConfigurationError as error:
        assert problems
        assert all(problem in str(error) for problem in problems)  # noqa: PT017
    else:
        assert problems == []
