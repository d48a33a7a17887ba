"""There is always a token. A call without the right one ends with UNAUTHENTICATED and one sentence, before its handler runs.

Callers send `authorization: Bearer TOKEN`; comparison takes the same time whatever was sent.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from pathways_common.model.failure import Reason, fail

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
    return f"{'the token is wrong' if sent else 'no token was sent'}: {how}"


class TokenInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Demands a token per service ("pathways.v1.Sessions") or per method ("pathways.v1.Clusters/GetStatus"); others are open."""

    def __init__(self, tokens: Mapping[str, str], how: Mapping[str, str] | None = None) -> None:
        self._tokens = dict(tokens)
        self._how = dict(how or {})

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Passes the call on, or answers it with a handler of the same kind that refuses."""
        handler = await continuation(details)
        method = details.method.lstrip("/")
        service = method.partition("/")[0]
        name = method if method in self._tokens else service
        wanted = self._tokens.get(name)
        if handler is None or wanted is None:
            return handler
        sent = next((value for key, value in details.invocation_metadata or () if key == "authorization"), "")
        if isinstance(sent, bytes):
            sent = sent.decode(errors="replace")
        problem = token_problem(sent, wanted, self._how.get(name, TOKEN_HOW))
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
