"""Settings from the environment: what counts, and what each wrong one is told."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.core import ConfigurationError, RetryPolicy
from jobq.core.retries import DEFAULT_RETRY, retry_delay
from jobq.core.setting_keys import KEYS
from jobq.core.settings import ConnectionSettings, Settings, read_settings

REGION = {"JOBQ_SQS_REGION": "eu-west-1"}
NO_REGION = {"JOBQ_SQS_REGION": ""}
REPORTS = {"JOBQ_REPORTS_CONNECTION": "sqs", "JOBQ_REPORTS_SQS_REGION": "us-east-2"}
MEMORY = {"JOBQ_CONNECTION": "memory"}
ONE_ORIGIN = "it must be one origin, scheme, host and perhaps a port, without"
TIMEOUT = "it must be a number of seconds above 20, which the longest poll takes, and at most 3600"
VISIBILITY = "it must be a number of seconds, 1 to 43200 (12 hours)"
ATTEMPTS = "it must be a whole number, at least 1"
DELAY = "it must be a number of seconds, 0 to 43200 (12 hours), for longer a message can't be"
NAME = "it must be 'default', or a name of letters, digits, '-' and '_' that begins with a letter"
BACKENDS = "it must be one of sqs, memory, sqs-fifo, sqs-standard"

WRONG: list[tuple[dict[str, str], str]] = [
    # The region is SQS's to need, and AWS's own variables don't stand in for it.
    (NO_REGION, "JOBQ_SQS_REGION isn't set: SQS queues need it, such as eu-west-1"),
    (
        {**NO_REGION, "AWS_REGION": "eu-west-1"},
        "AWS_REGION and AWS_DEFAULT_REGION don't count here",
    ),
    ({"JOBQ_SQS_REGION": " "}, "JOBQ_SQS_REGION isn't set"),
    ({"JOBQ_SQS_REGION": "eu-west-1.evil.example/"}, "it must be a region's name"),
    ({**NO_REGION, "JOBQ_CONNECTION": "sqs-fifo"}, "JOBQ_SQS_REGION isn't set"),
    # The endpoint is one origin.
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example/queues"}, f"{ONE_ORIGIN} a path"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example/"}, f"{ONE_ORIGIN} a path"),
    ({"JOBQ_SQS_ENDPOINT": "https://me:pw@sqs.example"}, f"{ONE_ORIGIN} userinfo"),
    ({"JOBQ_SQS_ENDPOINT": "https://@sqs.example"}, f"{ONE_ORIGIN} userinfo"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example?"}, f"{ONE_ORIGIN} a query"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example?pw"}, "'https://sqs.example?***': it must be one"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example#"}, f"{ONE_ORIGIN} a fragment"),
    (
        {"JOBQ_SQS_ENDPOINT": "https://me@sqs.example/a?b#c"},
        f"{ONE_ORIGIN} userinfo, a path, a query and a fragment",
    ),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs. example"}, "without blanks and other characters"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example\\@evil.example"}, "without userinfo and blanks"),
    ({"JOBQ_SQS_ENDPOINT": "sqs.example"}, "'sqs.example': it must begin with https://"),
    ({"JOBQ_SQS_ENDPOINT": "sqs.example:443"}, "it must begin with https://"),
    ({"JOBQ_SQS_ENDPOINT": "ftp://sqs.example"}, "it must begin with https://"),
    ({"JOBQ_SQS_ENDPOINT": "https://"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://:443"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://my_sqs:443"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://[::g]"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://127.1:4566"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://2130706433"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://1.2.3.256"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example:"}, "its port must be a number, 1 to 65535"),
    ({"JOBQ_SQS_ENDPOINT": "https://me:pw"}, "'https://me:***': its port must be a number"),
    ({"JOBQ_SQS_ENDPOINT": "https://" + "long." * 51 + "a"}, "it must name a host"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example:0"}, "its port must be a number, 1 to 65535"),
    ({"JOBQ_SQS_ENDPOINT": "https://sqs.example:65536"}, "its port must be a number"),
    # Plain text has to be asked for.
    (
        {"JOBQ_SQS_ENDPOINT": "http://localhost:4566"},
        (
            "JOBQ_SQS_ENDPOINT is 'http://localhost:4566': plain http is refused: use https://, or "
            "set JOBQ_SQS_PLAINTEXT=true"
        ),
    ),
    (
        {"JOBQ_SQS_ENDPOINT": "HTTP://localhost", "JOBQ_SQS_PLAINTEXT": "false"},
        "plain http is refused",
    ),
    ({"JOBQ_SQS_PLAINTEXT": "yes"}, "JOBQ_SQS_PLAINTEXT is 'yes': it must be true or false"),
    # Another's endpoint.
    (
        {"AWS_ENDPOINT_URL": "http://localhost:4566"},
        "AWS_ENDPOINT_URL is 'http://localhost:4566': jobq doesn't go by it: set JOBQ_SQS_ENDPOINT",
    ),
    (
        {"AWS_ENDPOINT_URL_SQS": "https://me:pw@sqs.example", "JOBQ_SQS_ENDPOINT": ""},
        "AWS_ENDPOINT_URL_SQS is 'https://***@sqs.example': jobq doesn't go by it",
    ),
    (
        {"AWS_ENDPOINT_URL": "https://a.example", "JOBQ_CONNECTION_NAME": "reports", **REPORTS},
        "set JOBQ_REPORTS_SQS_ENDPOINT",
    ),
    # Numbers.
    ({"JOBQ_SQS_TIMEOUT": "5"}, f"JOBQ_SQS_TIMEOUT is '5': {TIMEOUT}"),
    ({"JOBQ_SQS_TIMEOUT": "20"}, f"JOBQ_SQS_TIMEOUT is '20': {TIMEOUT}"),
    ({"JOBQ_SQS_TIMEOUT": "-30"}, f"JOBQ_SQS_TIMEOUT is '-30': {TIMEOUT}"),
    ({"JOBQ_SQS_TIMEOUT": "30s"}, f"JOBQ_SQS_TIMEOUT is '30s': {TIMEOUT}"),
    ({"JOBQ_SQS_TIMEOUT": "nan"}, f"JOBQ_SQS_TIMEOUT is 'nan': {TIMEOUT}"),
    ({"JOBQ_SQS_TIMEOUT": "inf"}, f"JOBQ_SQS_TIMEOUT is 'inf': {TIMEOUT}"),
    ({"JOBQ_SQS_TIMEOUT": "9" * 5000}, TIMEOUT),
    ({"JOBQ_VISIBILITY_TIMEOUT_SECONDS": "0"}, f"SECONDS is '0': {VISIBILITY}"),
    ({"JOBQ_VISIBILITY_TIMEOUT_SECONDS": "43201"}, f"SECONDS is '43201': {VISIBILITY}"),
    ({"JOBQ_VISIBILITY_TIMEOUT_SECONDS": "5m"}, f"SECONDS is '5m': {VISIBILITY}"),
    ({"JOBQ_MAX_ATTEMPTS": "-1"}, f"JOBQ_MAX_ATTEMPTS is '-1': {ATTEMPTS}"),
    ({"JOBQ_MAX_ATTEMPTS": "0"}, f"JOBQ_MAX_ATTEMPTS is '0': {ATTEMPTS}"),
    ({"JOBQ_MAX_ATTEMPTS": "2.0"}, f"JOBQ_MAX_ATTEMPTS is '2.0': {ATTEMPTS}"),
    ({"JOBQ_MAX_ATTEMPTS": "five"}, f"JOBQ_MAX_ATTEMPTS is 'five': {ATTEMPTS}"),
    ({"JOBQ_RETRY_BASE_DELAY_SECONDS": "-1"}, f"JOBQ_RETRY_BASE_DELAY_SECONDS is '-1': {DELAY}"),
    ({"JOBQ_RETRY_BASE_DELAY_SECONDS": "43201"}, f"DELAY_SECONDS is '43201': {DELAY}"),
    ({"JOBQ_RETRY_BASE_DELAY_SECONDS": "soon"}, f"DELAY_SECONDS is 'soon': {DELAY}"),
    # Connections, backends, prefixes.
    ({"JOBQ_CONNECTION": "kafka"}, f"JOBQ_CONNECTION is 'kafka': {BACKENDS}"),
    ({"JOBQ_CONNECTION": "sqs://me:pw@sqs.example"}, "JOBQ_CONNECTION is 'sqs://***@sqs.example'"),
    (
        {"JOBQ_CONNECTION_NAME": "reports"},
        "JOBQ_REPORTS_CONNECTION isn't set, so there is no connection 'reports'",
    ),
    (
        {"JOBQ_CONNECTION_NAME": "reprots", **REPORTS, "JOBQ_OLD_CONNECTION": ""},
        (
            "JOBQ_REPROTS_CONNECTION isn't set, so there is no connection 'reprots': set it, to "
            "sqs or to a backend's name, or choose another connection; there are: default, reports"
        ),
    ),
    ({"JOBQ_CONNECTION_NAME": "2nd"}, f"JOBQ_CONNECTION_NAME is '2nd': {NAME}"),
    ({"JOBQ_CONNECTION_NAME": "my reports"}, f"JOBQ_CONNECTION_NAME is 'my reports': {NAME}"),
    ({"JOBQ_CONNECTION_NAME": "straße"}, NAME),
    ({"JOBQ_SQS_QUEUE_PREFIX": "a.b"}, "JOBQ_SQS_QUEUE_PREFIX is 'a.b': it goes before the names"),
    # A named connection falls back to nothing that leads to a queue.
    (
        {"JOBQ_CONNECTION_NAME": "reports", "JOBQ_REPORTS_CONNECTION": "sqs"},
        "JOBQ_REPORTS_SQS_REGION isn't set",
    ),
    (
        {
            **REPORTS,
            "JOBQ_CONNECTION_NAME": "reports",
            "JOBQ_REPORTS_SQS_ENDPOINT": "http://localhost:4566",
            "JOBQ_SQS_PLAINTEXT": "true",
        },
        "set JOBQ_REPORTS_SQS_PLAINTEXT=true",
    ),
    # Slips.
    (
        {"JOBQ_SQS_TIMEOUT_SECONDS": "60"},
        "JOBQ_SQS_TIMEOUT_SECONDS is set and means nothing: JOBQ_SQS_TIMEOUT does; rename it",
    ),
    ({"JOBQ_SQS_QUEUE_PREFX": "staging-"}, "nothing: JOBQ_SQS_QUEUE_PREFIX does"),
    ({"JOBQ_SQS_ENDPOINT_URL": "https://a.example"}, "nothing: JOBQ_SQS_ENDPOINT does"),
    ({"JOBQ_REGION": "eu-west-1"}, "nothing: JOBQ_SQS_REGION does"),
    ({"JOBQ_SQS_REIGON": "eu-west-1"}, "nothing: JOBQ_SQS_REGION does"),
    ({"JOBQ_MAX_ATEMPTS": "4"}, "nothing: JOBQ_MAX_ATTEMPTS does"),
    ({"JOBQ_TIMEOUT": "60"}, "nothing: JOBQ_SQS_TIMEOUT does"),
    ({"JOBQ_VISIBILITY_TIMEOUT": "60"}, "nothing: JOBQ_VISIBILITY_TIMEOUT_SECONDS does"),
    ({"JOBQ_SQS_VISIBILITY_TIMEOUT_SECONDS": "60"}, "JOBQ_VISIBILITY_TIMEOUT_SECONDS does"),
    ({"JOBQ_DEFAULT_SQS_REGION": "eu-west-1"}, "nothing: JOBQ_SQS_REGION does"),
    ({"JOBQ_CONECTION_NAME": "reports"}, "nothing: JOBQ_CONNECTION_NAME does"),
    (
        {"JOBQ_CONNECTION_NAME": "reports", **REPORTS, "JOBQ_REPORTS_SQS_PREFIX": "a-"},
        "JOBQ_REPORTS_SQS_PREFIX is set and means nothing: JOBQ_REPORTS_SQS_QUEUE_PREFIX does",
    ),
]


@pytest.mark.parametrize(("environment", "said"), WRONG, ids=lambda value: str(value)[:80])
def test_what_cannot_work_is_refused_by_key_value_and_what_is_allowed(
    environment: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)) as refused:
        read_settings({**REGION, **environment})
    assert "settings are wrong" not in str(refused.value), "it is the one thing that is wrong"


@pytest.mark.parametrize("environment", [environment for environment, _ in WRONG])
def test_no_message_holds_a_password(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_settings(environment)
    assert "pw" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


SECRET = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6).map("pw".__add__)


@given(secret=SECRET, scheme=st.sampled_from(["https://", "http://", "sqs://", ""]))
def test_whatever_a_password_holds_it_is_in_no_message(secret: str, scheme: str) -> None:
    for key in ("JOBQ_SQS_ENDPOINT", "AWS_ENDPOINT_URL", "JOBQ_CONNECTION"):
        with pytest.raises(ConfigurationError) as refused:
            read_settings({**REGION, key: f"{scheme}me:{secret}@sqs.example:443"})
        assert secret not in str(refused.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    environment = {"JOBQ_SQS_TIMEOUT": "5", "JOBQ_MAX_ATTEMPTS": "0"}
    with pytest.raises(ConfigurationError) as refused:
        read_settings(environment)
    first, *problems = str(refused.value).split("\n- ")
    assert first == "3 settings are wrong:"
    assert [problem.split()[0] for problem in problems] == [
        "JOBQ_SQS_REGION",
        "JOBQ_SQS_TIMEOUT",
        "JOBQ_MAX_ATTEMPTS",
    ]


def test_a_region_is_all_that_sqs_needs() -> None:
    assert read_settings(REGION) == Settings(
        connection=ConnectionSettings(
            name="default",
            backend="sqs",
            region="eu-west-1",
            endpoint=None,
            timeout=30,
            queue_prefix="",
        ),
        visibility_timeout=300,
        retry=None,
    )


def test_every_key_is_read() -> None:
    environment = {
        "JOBQ_CONNECTION": "sqs-fifo",
        "JOBQ_SQS_REGION": "eu-west-1",
        "JOBQ_SQS_QUEUE_PREFIX": "staging-",
        "JOBQ_SQS_ENDPOINT": "http://[::1]:4566",
        "JOBQ_SQS_PLAINTEXT": "True",
        "JOBQ_SQS_TIMEOUT": "20.5",
        "JOBQ_VISIBILITY_TIMEOUT_SECONDS": "43200",
        "JOBQ_MAX_ATTEMPTS": "4",
        "JOBQ_RETRY_BASE_DELAY_SECONDS": "0.5",
    }
    assert set(environment) == {f"JOBQ_{key.name}" for key in KEYS}
    assert read_settings(environment) == Settings(
        connection=ConnectionSettings(
            name="default",
            backend="sqs-fifo",
            region="eu-west-1",
            endpoint="http://[::1]:4566",
            timeout=20.5,
            queue_prefix="staging-",
        ),
        visibility_timeout=43_200,
        retry=RetryPolicy(max_attempts=4, base_delay=0.5),
    )


@pytest.mark.parametrize("value", ["", " ", "\n"])
def test_an_empty_value_is_as_if_it_were_not_set(value: str) -> None:
    empty = {f"JOBQ_{key.name}": value for key in KEYS} | {"JOBQ_CONNECTION_NAME": value}
    assert read_settings({**empty, **REGION, "AWS_ENDPOINT_URL": value}, "") == read_settings(
        REGION
    )


def test_blanks_around_a_value_do_not_count() -> None:
    assert read_settings({"JOBQ_SQS_REGION": " eu-west-1\n"}) == read_settings(REGION)


@pytest.mark.parametrize(
    "endpoint", ["https://sqs.example", "HTTPS://127.0.0.1:8443", "https://a."]
)
def test_an_origin_is_taken_as_it_is(endpoint: str) -> None:
    environment = {**REGION, "JOBQ_SQS_ENDPOINT": endpoint}
    assert read_settings(environment).connection.endpoint == endpoint


def test_beside_an_endpoint_of_its_own_aws_s_variables_do_not_count() -> None:
    foreign = {"AWS_ENDPOINT_URL": "http://a.example", "AWS_ENDPOINT_URL_SQS": "http://b.example"}
    own = {**REGION, "JOBQ_SQS_ENDPOINT": "https://sqs.example"}
    assert read_settings({**own, **foreign}) == read_settings(own)


def test_other_backends_need_no_region_and_mind_no_endpoint() -> None:
    settings = read_settings({**MEMORY, "AWS_ENDPOINT_URL": "http://localhost:4566"})
    assert settings.connection.backend == "memory"
    assert settings.connection.region is None


def test_what_sqs_would_fail_at_is_told_once_a_queue_asks_for_it_by_itself() -> None:
    queues = {"a": "jobs", "b": {"name": "ledger", "backend": "sqs-fifo"}}
    said = re.escape("queue 'b': it is of SQS, and JOBQ_SQS_REGION isn't set")
    with pytest.raises(ConfigurationError, match=said):
        read_settings(MEMORY).define(queues)
    assert read_settings({**MEMORY, **REGION}).define(queues)["b"].backend == "sqs-fifo"


@pytest.mark.parametrize("name", ["daily-reports", "Daily_Reports", "DAILY-REPORTS"])
def test_a_name_is_upper_cased_with_underscores_for_its_keys(name: str) -> None:
    environment = {
        **REGION,
        "JOBQ_DAILY_REPORTS_CONNECTION": "sqs-standard",
        "JOBQ_DAILY_REPORTS_SQS_REGION": "us-east-2",
    }
    connection = read_settings(environment, name).connection
    assert (connection.name, connection.region) == ("daily-reports", "us-east-2")
    assert read_settings({**environment, "JOBQ_CONNECTION_NAME": name}).connection == connection


def test_the_argument_goes_before_the_environment_s_choice() -> None:
    environment = {**REGION, **REPORTS, "JOBQ_CONNECTION_NAME": "reports"}
    assert read_settings(environment).connection.region == "us-east-2"
    for name in ("default", "DEFAULT"):
        assert read_settings(environment, name).connection == read_settings(REGION).connection


def test_a_named_connection_reads_its_own_keys_and_the_plain_ones_that_lead_to_no_queue() -> None:
    plain = {
        "JOBQ_CONNECTION": "memory",
        "JOBQ_SQS_QUEUE_PREFIX": "plain-",
        "JOBQ_SQS_ENDPOINT": "https://plain.example",
        "JOBQ_SQS_TIMEOUT": "99",
        "JOBQ_VISIBILITY_TIMEOUT_SECONDS": "60",
        "JOBQ_MAX_ATTEMPTS": "4",
        "JOBQ_RETRY_BASE_DELAY_SECONDS": "2",
    }
    settings = read_settings({**plain, **REPORTS, "JOBQ_REPORTS_MAX_ATTEMPTS": "7"}, "reports")
    assert settings.connection == ConnectionSettings(
        name="reports",
        backend="sqs",
        region="us-east-2",
        endpoint=None,
        timeout=30,
        queue_prefix="",
    )
    assert settings.visibility_timeout == 60
    assert settings.retry == RetryPolicy(max_attempts=7, base_delay=2)


@pytest.mark.parametrize(("seconds", "longest"), [("2", 900), ("3600", 3600)])
def test_a_base_delay_that_is_longer_than_usual_is_not_cut(seconds: str, longest: int) -> None:
    policy = read_settings({**REGION, "JOBQ_RETRY_BASE_DELAY_SECONDS": seconds}).retry
    assert policy is not None
    policy = policy.over(DEFAULT_RETRY)
    assert retry_delay(policy, receive_count=1, random=1) == int(seconds)
    assert retry_delay(policy, receive_count=30, random=1) == longest


def test_what_is_wrong_with_another_connection_does_not_matter() -> None:
    other = {"JOBQ_A_CONNECTION": "kafka", "JOBQ_A_SQS_QUEUE_PREFX": "5"}
    assert read_settings({**REGION, **other}) == read_settings(REGION)
    wrong_plain = {"JOBQ_SQS_TIMEOUT": "5", "JOBQ_CONNECTION": "kafka"}
    assert read_settings({**REPORTS, **wrong_plain}, "reports").connection.timeout == 30


@pytest.mark.parametrize(
    "variable",
    [
        "JOBQ_",
        "JOBQ_QUEUES",
        "JOBQ_CONCURRENCY",
        "JOBQ_LOG_LEVEL",
        "JOBQ_NAME",
        "JOBQ_SQS_QUEUE_NAME",
        "JOBQ_SQS_QUEUE_URL",
        "JOBQ_SHUTDOWN_TIMEOUT_SECONDS",
        # Kubernetes sets these for services named jobq and jobq-sqs.
        "JOBQ_PORT",
        "JOBQ_SERVICE_HOST",
        "JOBQ_SQS_PORT",
        "JOBQ_SQS_SERVICE_HOST",
        "JOBQ_SQS_PORT_4566_TCP_ADDR",
    ],
)
def test_an_application_s_own_variables_are_let_alone(variable: str) -> None:
    assert read_settings({**REGION, variable: "4"}) == read_settings(REGION)


def test_leftovers_of_a_connection_that_is_gone_are_let_alone() -> None:
    gone = {"JOBQ_OLD_SQS_REGION": "eu-west-1", "JOBQ_OLD_MAX_ATTEMPTS": "4"}
    assert read_settings({**REGION, **gone}) == read_settings(REGION)
    assert read_settings({**REPORTS, **gone}, "reports") == read_settings(REPORTS, "reports")


@given(st.dictionaries(st.sampled_from([f"JOBQ_{key.name}" for key in KEYS]), st.text()))
def test_an_environment_is_read_or_refused_in_one_way(environment: dict[str, str]) -> None:
    try:
        settings = read_settings(environment)
    except ConfigurationError as error:
        assert "JOBQ_" in str(error)  # noqa: PT017 - either end is a good one
    else:
        assert settings.connection.timeout > 20
        assert 1 <= settings.visibility_timeout <= 43_200
