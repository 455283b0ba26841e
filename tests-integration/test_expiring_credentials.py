"""A worker whose credentials run out while it works (ministack, and a container's endpoint)."""

from __future__ import annotations

import signal
import time

import pytest
from bench import Bench, job
from credential_servers import container_endpoint, signer_of
from faults import refuse_first
from processes import assert_adds_up, until

LIFE = 5.0
JOBS = 130


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_c4_a_worker_goes_on_while_its_credentials_expire_and_three_requests_are_refused(
    bench: Bench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(queue, [job("sync", f"j{n}", seconds=0.1) for n in range(JOBS)])
    bench.proxy.intercept = refuse_first(
        3, lambda _: len(bench.journal.started()) > 10, "ExpiredToken", status=403
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with container_endpoint() as issuer:
        issuer.seconds = LIFE
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", issuer.url)
        definition = {"q": {"name": queue.name, "visibility_timeout": 30}}
        with bench.worker(definition, setup={"kind": kind}, idle_wait_seconds=1) as worker:
            began = time.monotonic()
            until(lambda: set(bench.journal.ended()) == set(ids), "all jobs", seconds=60)
            assert time.monotonic() - began > 2 * LIFE, "no credentials have run out"
            until(lambda: set(bench.traffic.deleted) == set(ids), "all deletes")
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        used = [issuer.of(exchange.request) for exchange in bench.proxy.exchanges]
    assert sorted(bench.journal.started()) == sorted(ids), "each was run once"
    assert_adds_up(worker.last_line(), received=JOBS)
    refused = [one for one in bench.proxy.exchanges if one.reply.status == 403]
    assert len(refused) == 3
    assert len({signer_of(exchange.request) for exchange in bench.proxy.exchanges}) >= 3
    for exchange, keys in zip(bench.proxy.exchanges, used, strict=True):
        assert keys.given <= exchange.request.at <= keys.expires
