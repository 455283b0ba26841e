"""Clients: one for each process, and none across a fork."""

import os
import threading
import time
from collections.abc import Callable

import pytest

from jobq.core import ClientSource, ConfigurationError, UnknownQueueError

forks = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


class Client:
    closed = False

    def close(self) -> None:
        self.closed = True


def in_a_child(check: Callable[[], bool]) -> bool:
    """Whether `check` returned True in a forked child."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_client_that_was_given_is_handed_out_and_left_open() -> None:
    client = Client()
    source = ClientSource(client)

    assert source() is client
    source.close()
    assert not client.closed


def test_a_callable_makes_one_client_however_many_threads_ask_at_once() -> None:
    made: list[Client] = []

    def make() -> Client:
        time.sleep(0.02)
        made.append(Client())
        return made[-1]

    source = ClientSource(make)
    seen: list[object] = []
    threads = [threading.Thread(target=lambda: seen.append(source())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert seen == [made[0]] * 8


def test_nothing_is_made_before_it_is_asked_for() -> None:
    ClientSource(lambda: pytest.fail("made")).close()


def test_closing_closes_what_was_made_and_another_is_made_after_it() -> None:
    source = ClientSource(Client)
    first = source()
    source.close()

    assert first.closed
    assert source() is not first


def test_a_client_without_a_close_is_dropped() -> None:
    source = ClientSource(object)
    first = source()
    source.close()
    assert source() is not first


def test_renewing_has_the_next_call_make_another_once() -> None:
    source = ClientSource(Client)
    stale = source()

    source.renew(stale)
    fresh = source()
    source.renew(stale)

    assert source() is fresh is not stale
    assert not stale.closed


def test_a_client_that_was_given_is_not_renewed() -> None:
    client = Client()
    source = ClientSource(client)
    source.renew(source())
    assert source() is client


def test_threads_get_a_client_while_others_renew_it() -> None:
    source = ClientSource(Client)
    seen: list[object] = []

    def renew_and_ask() -> None:
        for _ in range(2000):
            client = source()
            seen.append(client)
            source.renew(client)

    threads = [threading.Thread(target=renew_and_ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {type(client) for client in seen} == {Client}


def test_an_address_is_no_client() -> None:
    with pytest.raises(ConfigurationError, match=r"callable that makes one.* not 'http://sqs'"):
        ClientSource("http://sqs")


def test_what_making_a_client_raises_becomes_the_cause_of_a_configuration_error() -> None:
    def make() -> Client:
        raise LookupError("no region")

    with pytest.raises(ConfigurationError, match="raised LookupError: no region") as caught:
        ClientSource(make)()
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_error_of_ours_passes_through_as_it_is() -> None:
    error = UnknownQueueError("ours")

    def make() -> Client:
        raise error

    with pytest.raises(UnknownQueueError) as caught:
        ClientSource(make)()
    assert caught.value is error


class TestForks:
    pytestmark = forks

    def test_a_child_makes_a_client_of_its_own(self) -> None:
        source = ClientSource(Client)
        parents = source()

        assert in_a_child(lambda: source() is not parents)
        assert source() is parents

    def test_a_client_that_was_used_before_a_fork_is_refused_in_the_child(self) -> None:
        source = ClientSource(Client())
        source()

        def refused() -> bool:
            with pytest.raises(ConfigurationError, match="can't be used after a fork"):
                source()
            return True

        assert in_a_child(refused)
        source()

    def test_a_client_that_was_not_used_yet_is_good_in_the_child(self) -> None:
        client = Client()
        source = ClientSource(client)

        assert in_a_child(lambda: source() is client)

    def test_a_child_of_a_process_that_is_just_making_its_client_does_not_hang(self) -> None:
        making, go_on = threading.Event(), threading.Event()

        def make() -> Client:
            if threading.current_thread() is not threading.main_thread():
                making.set()
                go_on.wait(5)
            return Client()

        source = ClientSource(make)
        thread = threading.Thread(target=source)
        thread.start()
        making.wait(5)
        try:
            assert in_a_child(lambda: isinstance(source(), Client))
        finally:
            go_on.set()
            thread.join()

    def test_a_child_never_closes_its_parents_client(self) -> None:
        source = ClientSource(Client)
        parents = source()

        def untouched() -> bool:
            source.close()
            return not parents.closed

        assert in_a_child(untouched)
