"""How long somebody tries to come back."""

from __future__ import annotations

import asyncio

import pytest
from pathways_common.rpc import reconnecting
from pathways_common.rpc.reconnecting import Failed, TooLate, come_back


class Connection:
    """Counts how many were made and ended."""

    made = ended = 0

    def cancel(self) -> None:
        Connection.ended += 1


@pytest.fixture(autouse=True)
def _counts() -> None:
    Connection.made = Connection.ended = 0


async def dial() -> Connection:
    Connection.made += 1
    return Connection()


def test_where_nobody_is_tries_end_with_the_limit() -> None:
    async def nobody() -> Connection:
        Connection.made += 1
        raise ConnectionRefusedError("nothing answers there")

    async def greet(_connection: Connection) -> int:
        raise AssertionError("there is nobody to greet")

    with pytest.raises(TooLate, match="nothing answers there"):
        asyncio.run(come_back(0.5, nobody, greet))
    assert Connection.made >= 3


def test_who_ends_every_connection_at_once_is_as_good_as_nobody() -> None:
    async def greet(_connection: Connection) -> int:
        raise Failed("reset by a proxy")

    with pytest.raises(TooLate, match="reset by a proxy"):
        asyncio.run(come_back(0.5, dial, greet))
    assert Connection.made == Connection.ended >= 3


@pytest.mark.parametrize("how", ["the connection notices", "nobody notices"])
def test_time_in_which_somebody_takes_connections_and_is_silent_does_not_count(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(reconnecting, "_SILENCE_S", 0.05)
    monkeypatch.setattr(reconnecting, "HELLO_TIMEOUT_NS", 10**8)

    async def greet(_connection: Connection) -> int:
        if Connection.made < 6:  # stopped; each try takes as long as the whole limit
            await asyncio.sleep(0.1 if how == "the connection notices" else 10)
            raise Failed("nothing was heard of it any more")
        return 7

    _, answer = asyncio.run(come_back(2.0, dial, greet))
    assert answer == 7
    assert (Connection.made, Connection.ended) == (6, 5)

    monkeypatch.setattr(reconnecting, "UNANSWERED_NS", 2 * 10**8)
    Connection.made = 0
    with pytest.raises(TooLate, match="it takes connections and does not answer"):
        asyncio.run(come_back(60.0, dial, greet))


def test_a_refusal_ends_the_tries_and_the_connection() -> None:
    async def greet(_connection: Connection) -> int:
        raise KeyError("refused")

    with pytest.raises(KeyError):
        asyncio.run(come_back(60.0, dial, greet))
    assert (Connection.made, Connection.ended) == (1, 1)
