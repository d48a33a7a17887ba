"""Header blocks: written without compression, read with `hpack`; and gRPC's rules for what stands in them.

A block is written as literals that are never indexed (RFC 7541, 6.2.2), so nothing is remembered between blocks. gRPC's rules
are those of its "gRPC over HTTP/2": percent-encoded messages, base64 for keys that end in `-bin`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

import hpack

from pathways_common.http2.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, Fault

Header = tuple[bytes, bytes]
Metadata = tuple[tuple[str, str | bytes], ...]

# What a peer may put into one header block, decoded.
HEADER_BYTES_MAX = 65536
_NS_OF_UNIT = {b"H": 3600 * 10**9, b"M": 60 * 10**9, b"S": 10**9, b"m": 10**6, b"u": 10**3, b"n": 1}
_TIMEOUT_DIGITS_MAX = 8


def _integer(value: int) -> bytes:
    """RFC 7541, 5.1, with a prefix of seven bits whose other bit is 0."""
    if value < 0x7F:
        return bytes((value,))
    out = bytearray((0x7F,))
    value -= 0x7F
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(headers: Iterable[Header]) -> bytes:
    """A header block."""
    return b"".join(b"\x00" + _integer(len(name)) + name + _integer(len(value)) + value for name, value in headers)


class HeaderDecoder:
    """Reads the header blocks of one connection, all of them and in their order."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=HEADER_BYTES_MAX)

    def decode(self, block: bytes) -> list[Header]:
        """The headers; raises Fault, after which the connection cannot go on."""
        try:
            return [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except hpack.OversizedHeaderListError:
            raise Fault(ENHANCE_YOUR_CALM, f"headers of more than {HEADER_BYTES_MAX} bytes") from None
        except hpack.HPACKError as error:
            raise Fault(COMPRESSION_ERROR, f"headers cannot be read: {type(error).__name__}") from None


def percent_encoded(text: str) -> bytes:
    """A status message as gRPC puts it into a header: printable ASCII except the percent sign stays."""
    return b"".join(bytes((byte,)) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte for byte in text.encode())


def percent_decoded(value: bytes) -> str:
    """The other way; anything goes."""
    return unquote_to_bytes(value).decode(errors="replace")


def metadata_headers(metadata: Sequence[tuple[str, str | bytes]]) -> list[Header]:
    """Metadata as headers."""
    return [
        (key.encode(), base64.b64encode(_raw(value)).rstrip(b"=") if key.endswith("-bin") else _raw(value))
        for key, value in metadata
    ]


def _raw(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def metadata_of(headers: Iterable[Header]) -> Metadata:
    """The metadata among headers; raises ValueError if a binary value is not base64 or another one is not ASCII."""
    found: list[tuple[str, str | bytes]] = []
    for name, value in headers:
        if name.startswith((b":", b"grpc-")) or name in (b"te", b"content-type"):
            continue
        key = name.decode("ascii")
        if key.endswith("-bin"):
            found += [(key, _unpadded(part)) for part in value.split(b",")]
        else:
            found.append((key, value.decode("ascii")))
    return tuple(found)


def _unpadded(value: bytes) -> bytes:
    value = value.strip().rstrip(b"=")
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"metadata is not base64: {error}") from None


def timeout_ns(value: bytes) -> int:
    """The time of a `grpc-timeout` header; raises ValueError if it is none."""
    digits, unit = value[:-1], value[-1:]
    if not digits.isdigit() or len(digits) > _TIMEOUT_DIGITS_MAX or unit not in _NS_OF_UNIT:
        raise ValueError(f"{value!r} is not a grpc-timeout")
    return int(digits) * _NS_OF_UNIT[unit]
