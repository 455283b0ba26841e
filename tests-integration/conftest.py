"""The servers, and how much of what takes long is run. A server that is missing is a failure."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from bench import Bench, bench_on
from servers import AWS, localstack_process, ministack_process


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("jobq", "jobq against local SQS servers")
    group.addoption("--full", action="store_true", help="all jobs, stops and minutes; see README")
    group.addoption("--seed", type=int, help="what a failing test printed, to see it again")


@pytest.fixture(scope="session")
def figure(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Chooses between what CI has time for and the whole, which is `--full`."""
    return lambda usual, full: full if request.config.getoption("--full") else usual


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given: int | None = request.config.getoption("--seed")
    chosen = random.SystemRandom().randrange(10**9) if given is None else given
    print(f"--seed {chosen}")
    return chosen


@pytest.fixture(scope="session", autouse=True)
def aws_environment() -> Iterator[None]:
    """This process, too, reaches no account."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in AWS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module", autouse=True)
def quiet_producers() -> Iterator[None]:
    """What these tests send by the thousand is no news."""
    before = structlog.get_config()
    warnings_up = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=warnings_up)
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack_process(tmp_path_factory.mktemp("ministack")) as url:
        yield url


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with localstack_process(tmp_path_factory.mktemp("localstack")) as url:
        yield url


@pytest.fixture
def bench(ministack: str, tmp_path: Path) -> Iterator[Bench]:
    with bench_on(ministack, tmp_path) as bench:
        yield bench


@pytest.fixture(params=["ministack", "localstack"])
def each_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """On one server after the other; `Bench.server` is its name."""
    with bench_on(request.getfixturevalue(request.param), tmp_path, server=request.param) as bench:
        yield bench
