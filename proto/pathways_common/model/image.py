"""What a host says of an image that it keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptImage:
    """`digest` is the SHA-256 of its bytes."""

    size_bytes: int
    digest: bytes
