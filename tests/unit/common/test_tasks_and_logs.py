"""A failing task stops its supervisor by name; log lines carry a phrase and fields."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.request

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_common.process import logs
from pathways_common.process.metrics import serve_metrics
from pathways_common.process.tasks import Supervisor, TaskFailed
from prometheus_client import CollectorRegistry, Counter


def test_a_failing_task_stops_the_supervisor_with_its_name() -> None:
    async def breaks() -> None:
        raise RuntimeError("boom")

    async def scenario() -> None:
        supervisor = Supervisor()
        waiting = supervisor.spawn("waits", asyncio.sleep(600))
        supervisor.spawn("breaks", breaks())
        with pytest.raises(TaskFailed, match="task breaks failed") as caught:
            await asyncio.wait_for(supervisor.run_until_stopped(), 60)
        assert isinstance(caught.value.__cause__, RuntimeError)
        await supervisor.close()
        assert waiting.cancelled()

    asyncio.run(scenario())


def test_a_timer_that_fails_stops_the_supervisor_and_one_that_is_cancelled_never_calls() -> None:
    def breaks(reason: str) -> None:
        raise RuntimeError(reason)

    async def scenario() -> None:
        supervisor = Supervisor()
        supervisor.later(0.0, "cancelled", breaks, "too late").cancel()
        await asyncio.sleep(0.01)
        assert not supervisor.stopping
        supervisor.later(0.0, "breaks", breaks, "boom")
        with pytest.raises(TaskFailed, match="task breaks failed") as caught:
            await asyncio.wait_for(supervisor.run_until_stopped(), 60)
        assert str(caught.value.__cause__) == "boom"

    asyncio.run(scenario())


def test_stop_ends_the_supervisor_with_the_first_reason() -> None:
    async def scenario() -> None:
        supervisor = Supervisor()
        supervisor.stop("first")
        supervisor.stop("second")
        await asyncio.wait_for(supervisor.run_until_stopped(), 60)
        assert supervisor.reason == "first"

    asyncio.run(scenario())


def test_a_log_line_off_a_terminal_is_json_with_phrase_and_fields() -> None:
    record = logging.LogRecord("name", logging.INFO, "", 0, "host joined", None, None)
    record.__dict__.update(logs.fields(host="a0", devices=2))
    entry = json.loads(logs._JsonFormatter("pathways-test").format(record))
    assert (entry["message"], entry["host"], entry["devices"], entry["process"]) == ("host joined", "a0", 2, "pathways-test")


def test_metrics_are_served_on_a_free_port_and_a_used_one_is_one_sentence() -> None:
    registry = CollectorRegistry()
    Counter("pathways_test_things", "Things.", registry=registry).inc(3)
    port = serve_metrics(registry, "127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert b"pathways_test_things_total 3.0" in answer.read()
    with pytest.raises(PathwaysError, match="choose another --metrics-port"):
        serve_metrics(registry, "127.0.0.1", port)
