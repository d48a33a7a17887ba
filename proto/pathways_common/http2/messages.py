"""gRPC's messages in a stream of bytes: one byte that says whether it is compressed, four of length, then the message.

Nothing compressed is taken: the answer to one is UNIMPLEMENTED, as the protocol wants it.
"""

from __future__ import annotations

PREFIX_BYTES = 5
# What protobuf itself can hold.
MESSAGE_BYTES_MAX = (1 << 31) - 1


class MessageError(Exception):
    """What came is not a message we take; `code` is the gRPC status that says so."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13


def prefix_of(message: bytes) -> bytes:
    """What travels before a message."""
    return len(message).to_bytes(5, "big")


def prefixed(message: bytes) -> bytes:
    """A message as it travels."""
    return len(message).to_bytes(5, "big") + message


class MessageBuffer:
    """Cuts one stream's data into messages, however it is split over frames."""

    __slots__ = ("_bytes_max", "_held", "_length")

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        # Of the message under way; -1 before its prefix is whole.
        self._length = -1

    @property
    def missing_bytes(self) -> int:
        """What the message under way still needs; 0 before its prefix is whole."""
        return max(0, self._length + PREFIX_BYTES - len(self._held)) if self._length >= 0 else 0

    @property
    def partial(self) -> bool:
        """Whether a message has begun that is not whole."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Messages that are whole now; raises MessageError, after which nothing more may be fed."""
        held = self._held
        if not held:
            # The usual case: the data is exactly one message.
            if len(data) >= PREFIX_BYTES and len(data) == PREFIX_BYTES + self._length_at(data, 0):
                return [data[PREFIX_BYTES:]]
        elif self._length >= 0 and len(held) + len(data) < PREFIX_BYTES + self._length:
            held += data
            return []
        held += data
        return self._cut()

    def _cut(self) -> list[bytes]:
        held = self._held
        messages: list[bytes] = []
        at = 0
        self._length = -1
        while len(held) - at >= PREFIX_BYTES:
            length = self._length_at(held, at)
            end = at + PREFIX_BYTES + length
            if end > len(held):
                self._length = length
                break
            with memoryview(held) as view:
                messages.append(bytes(view[at + PREFIX_BYTES : end]))
            at = end
        del held[:at]
        return messages

    def _length_at(self, data: bytes | bytearray, at: int) -> int:
        if data[at]:
            if data[at] == 1:
                raise MessageError(UNIMPLEMENTED, "compressed messages are not taken; send them as they are")
            raise MessageError(INTERNAL, f"a message begins with {data[at]} instead of 0 or 1")
        length = int.from_bytes(data[at + 1 : at + PREFIX_BYTES], "big")
        if length > self._bytes_max:
            raise MessageError(RESOURCE_EXHAUSTED, f"a message of {length} bytes; at most {self._bytes_max} are taken")
        return length
