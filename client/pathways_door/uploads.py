"""Bytes of arrays made from host buffers.

Small ones ride inline in MakeArray, all others wait for a grant and go to the workers. MakeArray leaves in the order of the
client's requests whether or not the bytes have arrived, so nothing overtakes it. A small buffer that is still on its way when
a frame is about to leave is waited for briefly (`unsettled`); if it does not come, its piece keeps the upload id. A failed push
poisons the array by itself: the controller's deadline for the ticket passes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from pathways_common.model.bounds import SETTLE_NS
from pathways_common.model.failure import PathwaysError
from pathways_common.process.logs import fields
from pathways_proto.v1 import sessions_pb2

from pathways_door.bulk import Bulk
from pathways_door.hostbuffers import Data
from pathways_door.tickets import Stopped, unless

_LOG = logging.getLogger(__name__)


class Upload:
    """One piece that was not inline when its MakeArray was made."""

    __slots__ = ("data", "grant", "piece", "sealed", "taker", "withdrawn")

    def __init__(self, piece: sessions_pb2.Piece) -> None:
        self.piece = piece
        # Who brings the bytes in their own way when they are expected; None is told if they are no longer.
        self.taker: asyncio.Future[sessions_pb2.UploadGrant | None] | None = None
        self.data: Data | None = None
        self.grant: sessions_pb2.UploadGrant | None = None
        # Its MakeArray has left, or may leave any moment: the piece is no longer changed.
        self.sealed = False
        self.withdrawn = False


class Uploads:
    """The uploads of one session. `spawn` starts a named task."""

    def __init__(self, bulk: Bulk, inline_bytes_max: int, spawn: Callable[[str, Coroutine[Any, Any, None]], object]) -> None:
        self._bulk = bulk
        self._inline_bytes_max = inline_bytes_max
        self._spawn = spawn
        self._uploads: dict[int, Upload] = {}
        self._late: dict[int, Upload] = {}
        # By granted upload whose bytes somebody brings in their own way: done when they are wanted no more.
        self._unwanted: dict[int, asyncio.Future[None]] = {}
        # Of the uploads in `_late`: whom to tell when they came, and the timer that says when that has taken too long.
        self._settled: Callable[[], None] = _nobody
        self._moment: asyncio.TimerHandle | None = None
        self._moment_over = False
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._uploads)

    def inline(self, piece: sessions_pb2.Piece, data: Data) -> bool:
        """Puts the bytes into the piece if they are few enough."""
        if len(data) > self._inline_bytes_max:
            return False
        piece.inline = bytes(data)
        return True

    def begin(self, piece: sessions_pb2.Piece) -> int:
        """Gives the piece an upload id; its bytes come by `arrived`."""
        self._last_id += 1
        piece.upload_id = self._last_id
        upload = self._uploads[self._last_id] = Upload(piece)
        if piece.size_bytes <= self._inline_bytes_max:
            self._late[self._last_id] = upload
        else:
            upload.sealed = True
        return self._last_id

    def expect(self, piece: sessions_pb2.Piece, taker: asyncio.Future[sessions_pb2.UploadGrant | None]) -> None:
        """Gives the piece an upload id; the grant goes to `taker`, who brings the bytes, few or many."""
        self._last_id += 1
        piece.upload_id = self._last_id
        upload = self._uploads[self._last_id] = Upload(piece)
        upload.sealed, upload.taker = True, taker

    async def while_wanted(self, upload_id: int, work: Coroutine[Any, Any, None]) -> None:
        """Brings the bytes of an upload that was granted, until that is done or they are wanted no more."""
        try:
            await unless(self._unwanted[upload_id], work)
        except Stopped:
            return
        finally:
            self.forget(upload_id)

    def forget(self, upload_id: int) -> None:
        """Nobody brings the bytes of an upload that was granted, or they are there."""
        self._unwanted.pop(upload_id, None)

    def arrived(self, upload_id: int, data: Data) -> None:
        """The bytes are there, dense."""
        upload = self._uploads.get(upload_id)
        if upload is None or upload.withdrawn:
            self._uploads.pop(upload_id, None)
            return
        if not upload.sealed and self.inline(upload.piece, data):
            upload.piece.upload_id = 0
            del self._uploads[upload_id]
            self._late.pop(upload_id, None)
            if not self._late:
                self._forget_moment()
                self._settled()
            return
        upload.data = data
        self._push_if_ready(upload_id, upload)

    def unsettled(self, settled: Callable[[], None]) -> bool:
        """Whether small buffers on their way should be given a moment; `settled` is called when they came or it is over."""
        if not self._late or self._moment_over:
            return False
        self._settled = settled
        if self._moment is None:
            self._moment = asyncio.get_running_loop().call_later(SETTLE_NS / 1e9, self._end_moment)
        return True

    def _end_moment(self) -> None:
        _LOG.debug("small uploads were late", extra=fields(count=len(self._late)))
        self._moment = None
        self._moment_over = True
        self._settled()

    def _forget_moment(self) -> None:
        self._moment_over = False
        if self._moment is not None:
            self._moment.cancel()
            self._moment = None

    def seal(self) -> None:
        """Pieces that may be leaving keep their upload id from now on."""
        for upload in self._late.values():
            upload.sealed = True
        self._late.clear()
        self._forget_moment()

    def granted(self, grant: sessions_pb2.UploadGrant) -> None:
        """The workers expect the bytes."""
        upload = self._uploads.get(grant.upload_id)
        if upload is not None and upload.taker is not None:
            self._tell(grant.upload_id, upload.taker, grant)
        elif upload is not None:
            upload.grant = grant
            self._push_if_ready(grant.upload_id, upload)

    def withdrawn(self, message: sessions_pb2.UploadWithdrawn) -> None:
        """The array was poisoned; bytes that still arrive are dropped."""
        unwanted = self._unwanted.get(message.upload_id)
        if unwanted is not None and not unwanted.done():
            unwanted.set_result(None)
        upload = self._uploads.get(message.upload_id)
        if upload is None:
            return
        if upload.taker is not None:
            self._tell(message.upload_id, upload.taker, None)
            return
        upload.withdrawn = True
        if upload.data is not None:
            del self._uploads[message.upload_id]

    def _tell(
        self, upload_id: int, taker: asyncio.Future[sessions_pb2.UploadGrant | None], grant: sessions_pb2.UploadGrant | None
    ) -> None:
        del self._uploads[upload_id]
        if not taker.done():
            if grant is not None:
                self._unwanted[upload_id] = asyncio.get_running_loop().create_future()
            taker.set_result(grant)

    def _push_if_ready(self, upload_id: int, upload: Upload) -> None:
        if upload.data is not None and upload.grant is not None:
            del self._uploads[upload_id]
            self._spawn(f"upload-{upload_id}", self._push(upload_id, upload.grant, upload.data))

    async def _push(self, upload_id: int, grant: sessions_pb2.UploadGrant, data: Data) -> None:
        results = await asyncio.gather(*(self._bulk.push(target, data) for target in grant.targets), return_exceptions=True)
        for result in results:
            if isinstance(result, PathwaysError):
                _LOG.warning("upload failed", extra=fields(upload_id=upload_id, cause=result.failure.message))
            elif isinstance(result, BaseException):
                raise result


def _nobody() -> None:
    """Nobody waits."""
