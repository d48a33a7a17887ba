"""The one place where exceptions become statuses: a Failure keeps its sentence, anything else is a defect with an id for the log.

Left to itself gRPC would send an exception's text to the peer, and nothing at all for a stray cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.process.logs import fields
from pathways_common.rpc.convert import failure_to_proto

_LOG = logging.getLogger(__name__)
_STATUS_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}
_DETAIL_BYTES_MAX = 4000  # more in trailing metadata kills the call


def status_of(reason: Reason) -> grpc.StatusCode:
    """The gRPC status of a reason."""
    if reason is Reason.UNAVAILABLE:
        return grpc.StatusCode.UNAVAILABLE
    return _STATUS_BY_NUMBER.get(reason.code, grpc.StatusCode.UNKNOWN)


async def abort_with(context: Any, failure: Failure) -> None:
    """Ends the call with the failure's sentence, and the failure itself in trailing metadata."""
    detail = failure_to_proto(failure).SerializeToString()
    metadata = (("pathways-failure-bin", detail),) if len(detail) <= _DETAIL_BYTES_MAX else ()
    await context.abort(status_of(failure.reason), failure.message[:1000], metadata)


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Wraps the handlers of the project's own services, which are coroutine functions of (request, context)."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Returns the handler with its errors mapped."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith("/pathways.v1."):
            return handler
        if handler.request_streaming and handler.response_streaming:
            return handler._replace(stream_stream=_mapped(handler.stream_stream, details.method))
        return handler._replace(unary_unary=_mapped(handler.unary_unary, details.method))


def _mapped(behaviour: Callable[[Any, Any], Awaitable[Any]], method: str) -> Callable[[Any, Any], Awaitable[Any]]:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await behaviour(request, context)
        except PathwaysError as error:
            await abort_with(context, error.failure)
        except grpc.aio.AbortError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            await abort_with(context, _defect(method, "a stray cancellation"))
        except Exception as error:
            await abort_with(context, _defect(method, error))

    return call


def _defect(method: str, error: BaseException | str) -> Failure:
    identifier = secrets.token_hex(6)
    trace = error if isinstance(error, BaseException) else None
    _LOG.error("call failed by a defect", extra=fields(method=method, id=identifier), exc_info=trace)
    sentence = f"the controller met a defect of its own; its log has the details under id {identifier}"
    return Failure(Reason.INTERNAL, sentence, id=identifier)
