"""There is always a token. A call without the right one ends with UNAUTHENTICATED and one sentence, before its handler runs.

Callers send `authorization: Bearer TOKEN`; comparison takes the same time whatever was sent.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import grpc
import grpc.aio

from pathways_common.model.failure import Reason, fail

# Says what is wrong with an `authorization`; None if nothing is.
Check = Callable[[str], str | None]
Metadata = tuple[tuple[str, str], ...]
TOKEN_HOW = "set PATHWAYS_TOKEN or PATHWAYS_TOKEN_FILE, or use the state directory of the cluster"


def bearer(token: str | None) -> Metadata:
    """Call metadata that carries the token; empty without one. Raises PathwaysError (UNAUTHENTICATED) if no call can carry it."""
    if token and not (token.isascii() and token.isprintable()):
        # gRPC would print lines of its own and call it an internal error.
        raise fail(Reason.UNAUTHENTICATED, f"the token holds characters that no token has, so it is not one: {TOKEN_HOW}")
    return (("authorization", f"Bearer {token}"),) if token else ()


def token_problem(sent: str, wanted: str, how: str) -> str | None:
    """What is wrong with the `authorization` of a caller, and how to put it right; None if it is the wanted token."""
    if hmac.compare_digest(sent.encode(), f"Bearer {wanted}".encode()):
        return None
    return wrong_token(sent, how)


def wrong_token(sent: str, how: str) -> str:
    """The sentence about an `authorization` that opens nothing; it holds nothing of it."""
    return f"{'the token is wrong' if sent else 'no token was sent'}: {how}"


def one_token(wanted: str, how: str = TOKEN_HOW) -> Check:
    """The check of what a single token opens."""
    return lambda sent: token_problem(sent, wanted, how)


def authorization(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """What a call carries as its authorization; empty if nothing."""
    sent = next((value for key, value in metadata or () if key == "authorization"), "")
    return sent.decode(errors="replace") if isinstance(sent, bytes) else sent


class TokenInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Demands a token per service ("pathways.v1.Sessions") or per method ("pathways.v1.Clusters/GetStatus"); others are open."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = dict(checks)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Passes the call on, or answers it with a handler of the same kind that refuses."""
        handler = await continuation(details)
        method = details.method.lstrip("/")
        check = self._checks.get(method) or self._checks.get(method.partition("/")[0])
        if handler is None or check is None:
            return handler
        problem = check(authorization(details.invocation_metadata))
        return handler if problem is None else _refusal(handler, problem)


def _refusal(handler: Any, sentence: str) -> Any:
    async def refuse(_request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, sentence)

    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(refuse, handler.request_deserializer, handler.response_serializer)
