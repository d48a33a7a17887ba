"""Threads that JAX's client starts wake up late; the user's own do not."""

from __future__ import annotations

import ctypes
import threading

from pathways._timers import lazy_timers

GET = 30  # PR_GET_TIMERSLACK


def slack_ns() -> int:
    return int(ctypes.CDLL(None).prctl(GET, 0, 0, 0, 0))


def slack_of_a_thread_ns() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(slack_ns()))
    thread.start()
    thread.join(20)
    return found[0]


def test_threads_started_within_sleep_longer_and_those_before_and_after_as_they_did() -> None:
    before = slack_ns()
    with lazy_timers():
        assert slack_of_a_thread_ns() == 2_000_000
    assert slack_ns() == before
    assert slack_of_a_thread_ns() == before
