"""Commands about images, as the core says them; part of effects.py, which names them all. Tickets are derived by the shell."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.ids import FetchId, HostName


@dataclass(frozen=True, slots=True)
class OfferImage:
    """Another host will pull the image of `key`, under the ticket of `fetch_id`."""

    key: str
    fetch_id: FetchId
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where a Load's image can be pulled: the OfferImage `fetch_id` of `host`, and what `host` said of its bytes."""

    host: HostName
    fetch_id: FetchId
    size_bytes: int
    digest: bytes
    timeout_ns: int
