"""Whose token it is that a call carries. Tokens are kept as hashes; what was sent is compared in the same time whatever it is."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from pathways_common.rpc.auth import TOKEN_HOW, wrong_token

from pathways_server.core.tenant_records import DEFAULT_TENANT, TenantName

_SCHEME = "Bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. An administrator may do everything and sees everything."""

    tenant: TenantName
    administrator: bool


ADMINISTRATOR = Caller(DEFAULT_TENANT, administrator=True)


def hashed(token: str) -> bytes:
    """What is kept of a token. It is 32 random bytes, so that nothing slower than SHA-256 is needed."""
    return hashlib.sha256(token.encode()).digest()


def new_token() -> str:
    """32 random bytes as text."""
    return secrets.token_urlsafe(32)


class TenantTokens:
    """The administrator's token and those of tenants; without the former everybody is the administrator (--no-auth)."""

    def __init__(self, administrator: str | None, tenants: Mapping[str, bytes]) -> None:
        self._administrator = hashed(administrator) if administrator is not None else None
        self._tenants = dict(tenants)

    def caller(self, authorization: str) -> Caller | None:
        """Who sent this; None if it is nobody's token."""
        if self._administrator is None:
            return ADMINISTRATOR
        if not authorization.startswith(_SCHEME):
            return None
        sent = hashed(authorization.removeprefix(_SCHEME))
        found = ADMINISTRATOR if hmac.compare_digest(sent, self._administrator) else None
        for name, kept in self._tenants.items():  # all of them, whichever it is
            if hmac.compare_digest(sent, kept):
                found = Caller(TenantName(name), administrator=False)
        return found

    def problem(self, authorization: str) -> str | None:
        """What is wrong with what was sent; None if it is somebody's token."""
        return None if self.caller(authorization) is not None else wrong_token(authorization, TOKEN_HOW)

    def __contains__(self, tenant: str) -> bool:
        return tenant in self._tenants

    def set(self, tenant: str, kept: bytes) -> None:
        """From now on this hash is that of the tenant's token."""
        self._tenants[tenant] = kept

    def remove(self, tenant: str) -> None:
        """Its token opens nothing any more."""
        self._tenants.pop(tenant, None)
