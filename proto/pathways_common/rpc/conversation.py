"""Messages of a stream taken as they come, instead of read one by one: no task wakes between the socket and who handles them."""

from __future__ import annotations

from typing import Protocol


class Conversation(Protocol):
    """Who takes messages as they come and answers some time later."""

    def handle(self, raw: bytes) -> None:
        """Takes one message; never waits and never raises."""

    def take(self) -> list[bytes]:
        """The messages to be sent now, once each."""

    @property
    def crowded(self) -> bool:
        """Whether nothing more should be given to it for now."""

    async def room(self) -> None:
        """Waits until it is not crowded."""


class Stream(Protocol):
    """A stream of messages and its conversation."""

    async def converse(self, talk: Conversation) -> None:
        """Gives every message to `talk` in order and sends what it says; returns when the other end has ended its side."""

    def answered(self, awaited: bool = True) -> None:
        """The conversation has something to say; what is not awaited may leave a moment later, with something that is."""
