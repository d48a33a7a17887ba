"""The setting of the keep-alive."""

from __future__ import annotations

import pytest
from pathways_common.rpc.keepalive import keepalive_ns


@pytest.mark.parametrize(("text", "seconds"), [("", 10.0), ("2.5", 2.5), ("0.1", 0.1), ("3600", 3600.0)])
def test_a_number_of_seconds_is_taken(text: str, seconds: float) -> None:
    assert keepalive_ns({"PATHWAYS_KEEPALIVE_S": text}) == int(seconds * 1e9)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "1e9"])
def test_what_is_none_is_told_and_not_used(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert keepalive_ns({"PATHWAYS_KEEPALIVE_S": text}) == 10 * 10**9
    (record,) = caplog.records
    assert record.message.startswith(f"PATHWAYS_KEEPALIVE_S is {text!r}: 10 s are used; set it to a number of seconds")
