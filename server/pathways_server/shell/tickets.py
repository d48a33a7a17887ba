"""A ticket is a single-use capability for bulk bytes; both ends of a transfer get the same one, derived and never stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets


class Tickets:
    """Derives tickets under a random key, which a life that goes on with another one's work has from it."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key or secrets.token_bytes(32)

    def transfer(self, number: int) -> str:
        """For the bytes pushed as this transfer."""
        return self._derive("transfer", number)

    def fetch(self, number: int) -> str:
        """For the bytes pulled from this fetch."""
        return self._derive("fetch", number)

    def run_key(self, number: int) -> bytes:
        """From which the hosts of a run derive the tickets of its moves."""
        return self._digest("run", number)

    def _derive(self, kind: str, number: int) -> str:
        return self._digest(kind, number)[:16].hex()

    def _digest(self, kind: str, number: int) -> bytes:
        return hmac.digest(self.key, f"{kind}:{number}".encode(), hashlib.sha256)
