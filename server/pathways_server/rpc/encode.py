"""Effects of the core to wire items: the only place that turns ids into tickets, host names into addresses, names into bytes.

Tables by type, one entry per command and reply; those about programs are in encode_programs.py. What several hosts get alike
is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pathways_common.model.bounds import INLINE_BYTES_MAX
from pathways_common.model.failure import Failure
from pathways_common.model.ids import HostName
from pathways_common.rpc.convert import failure_to_proto, spec_to_proto
from pathways_proto.v1 import sessions_pb2, spilling_pb2, types_pb2, workers_pb2

from pathways_server.core import effects
from pathways_server.rpc import handshake
from pathways_server.rpc.encode_programs import REPLY_TABLE, command_table
from pathways_server.rpc.wire import delimited, item, key
from pathways_server.shell.peer import RunItem, SessionPeer
from pathways_server.shell.programs import Programs
from pathways_server.shell.tickets import Tickets

_OPERANDS = key(sessions_pb2.CallbackRequest.DESCRIPTOR.fields_by_name["operands"].number)
_RESULTS = key(workers_pb2.CallbackReply.DESCRIPTOR.fields_by_name["results"].number)
_INSPECTION = key(sessions_pb2.Inspected.DESCRIPTOR.fields_by_name["inspection"].number)
_INFO = key(sessions_pb2.Compiled.DESCRIPTOR.fields_by_name["info"].number)
# What goes to several hosts: the last one of each kind is kept until the end of the turn.
_SHARED = frozenset((effects.Prepare, effects.Load, effects.LoadPlan, effects.RunPlan, effects.GrantRun, effects.Free))
_RUNS = (effects.RunPlan, effects.GrantRun)


def _keys(message: Any) -> dict[str, bytes]:
    return {field.name: key(field.number) for field in message.DESCRIPTOR.fields}


def _optional(failure: Failure | None) -> types_pb2.Failure | None:
    return None if failure is None else failure_to_proto(failure)


class Encoder:
    """Encodes for one life of the controller."""

    def __init__(
        self,
        tickets: Tickets,
        programs: Programs,
        address_of: Callable[[HostName], str],
        version: str,
        versions: Callable[[], Sequence[types_pb2.VersionRow]] = tuple,
    ) -> None:
        """`versions`: of the controller and its workers, as sessions are told at their start."""
        self._version = version
        self._versions = versions
        self._tickets = tickets
        self._programs = programs
        self._address_of = address_of
        self._last: dict[type, tuple[Any, bytes]] = {}
        command_keys, reply_keys = _keys(workers_pb2.HostCommand), _keys(sessions_pb2.ServerOperation)
        self._commands = {kind: (command_keys[name], make) for kind, (name, make) in self._command_table().items()}
        self._replies = {kind: (reply_keys[name], make) for kind, (name, make) in self._reply_table().items()}

    def command(self, command: effects.HostCommand) -> bytes:
        """The item of a ControllerFrame."""
        kind = type(command)
        known = self._last.get(kind)
        if known is not None and (command is known[0] or command == known[0]):
            return known[1]
        if kind not in _SHARED:
            field_key, make = self._commands[kind]
            return item(field_key, make(command))
        field_key, make = self._commands[kind]
        encoded = item(field_key, make(command))
        if kind in _RUNS:
            encoded = RunItem(encoded)
        self._last[kind] = (command, encoded)
        return encoded

    def forget_last(self) -> None:
        """Lets go of the last commands; call it once a turn, a Load is large."""
        self._last.clear()

    def reply(self, reply: effects.SessionReply) -> bytes:
        """The item of a ServerFrame; not for WelcomeSession and RefuseSession."""
        field_key, make = self._replies[type(reply)]
        return item(field_key, make(reply))

    def welcome(self, reply: effects.WelcomeSession, peer: SessionPeer) -> bytes:
        """The first frame of an accepted session."""
        return handshake.welcome_frame(reply, peer, self._version, INLINE_BYTES_MAX, self._versions())

    def refused(self, failure: Failure) -> bytes:
        """The only frame of a refused session."""
        return handshake.session_refused_frame(failure)

    def session_lost(self, failure: Failure) -> bytes:
        """The last item of a session that is ended from here."""
        return handshake.session_lost_item(failure)

    # ---- commands to a host -----------------------------------------------------------------------------------------

    def _command_table(self) -> dict[type, tuple[str, Callable[[Any], bytes]]]:
        return {
            effects.Prepare: ("prepare", _prepare),
            effects.Grant: ("grant", _grant),
            effects.Cancel: ("cancel", _cancel),
            effects.Free: ("free", _free),
            effects.Poison: ("poison", _poison),
            effects.PlaceArray: ("place_array", _place_array),
            effects.PlaceView: ("place_view", _place_view),
            effects.FetchShard: ("fetch_shard", self._fetch_shard),
            effects.AwaitReady: ("await_ready", _await_ready),
            effects.Load: ("load", self._load),
            effects.Unload: ("unload", _unload),
            effects.OfferImage: ("offer_image", self._offer_image),
            effects.InspectExecutable: ("inspect", _inspect),
            effects.StartCoordinator: ("start_coordinator", _start_coordinator),
            effects.EpochBegin: ("epoch_begin", _epoch_begin),
            effects.EpochEnd: ("epoch_end", _epoch_end),
            effects.Probe: ("probe", _probe),
            effects.ExpectUpload: ("expect_upload", self._expect_upload),
            effects.PullShard: ("pull_shard", self._pull_shard),
            effects.CancelTransfer: ("cancel_transfer", _cancel_transfer),
            effects.ReportHoldings: ("report_holdings", _report_holdings),
            effects.CallbackReply: ("callback_reply", _callback_reply),
            effects.CallbackAbort: ("callback_abort", _callback_abort),
            effects.Shutdown: ("shutdown", _shutdown),
            effects.OpenCell: ("open_cell", _open_cell),
            effects.CloseCell: ("close_cell", _close_cell),
            effects.SpillArray: ("spill_array", _spill_array),
            effects.RestoreArray: ("restore_array", _restore_array),
            effects.DropSpilled: ("drop_spilled", _drop_spilled),
            **command_table(self._tickets, self._address_of),
        }

    def _fetch_shard(self, command: effects.FetchShard) -> bytes:
        message = workers_pb2.FetchShard(
            fetch_id=command.fetch_id,
            shard=_local_shard(command.shard),
            ticket=self._tickets.fetch(command.fetch_id) if command.pull else "",
            timeout_ns=command.timeout_ns,
            start=command.start,
            limit=command.limit,
            held=command.held,
        )
        return bytes(message.SerializeToString())

    def _load(self, command: effects.Load) -> bytes:
        program, options = self._programs.bytes_of(command.program)
        message = workers_pb2.Load(
            executable_id=command.executable_id,
            program=program,
            options=options,
            devices=command.devices,
            callback_ids=command.callback_ids,
            epoch=command.epoch,
            image_key=command.image_key,
            source=None if command.source is None else self._image_source(command.source),
        )
        return bytes(message.SerializeToString())

    def _image_source(self, source: effects.ImageSource) -> workers_pb2.ImageSource:
        return workers_pb2.ImageSource(
            host=source.host,
            address=self._address_of(source.host),
            ticket=self._tickets.fetch(source.fetch_id),
            size_bytes=source.size_bytes,
            digest=source.digest,
            timeout_ns=source.timeout_ns,
        )

    def _offer_image(self, command: effects.OfferImage) -> bytes:
        message = workers_pb2.OfferImage(
            image_key=command.key,
            fetch_id=command.fetch_id,
            ticket=self._tickets.fetch(command.fetch_id),
            timeout_ns=command.timeout_ns,
        )
        return bytes(message.SerializeToString())

    def _expect_upload(self, command: effects.ExpectUpload) -> bytes:
        message = workers_pb2.ExpectUpload(
            transfer_id=command.transfer_id,
            ticket=self._tickets.transfer(command.transfer_id),
            size_bytes=command.size_bytes,
            timeout_ns=command.timeout_ns,
        )
        return bytes(message.SerializeToString())

    def _pull_shard(self, command: effects.PullShard) -> bytes:
        message = workers_pb2.PullShard(
            transfer_id=command.transfer_id,
            address=self._address_of(command.source),
            ticket=self._tickets.fetch(command.fetch_id),
            size_bytes=command.size_bytes,
            timeout_ns=command.timeout_ns,
        )
        return bytes(message.SerializeToString())

    # ---- replies to a session ---------------------------------------------------------------------------------------

    def _reply_table(self) -> dict[type, tuple[str, Callable[[Any], bytes]]]:
        return {
            effects.Compiled: ("compiled", _compiled),
            effects.UploadGrant: ("upload_grant", self._upload_grant),
            effects.UploadWithdrawn: ("upload_withdrawn", _upload_withdrawn),
            effects.Fetched: ("fetched", _fetched),
            effects.FetchTicket: ("fetch_ticket", self._fetch_ticket),
            effects.FetchFailed: ("fetch_failed", _fetch_failed),
            effects.Ready: ("ready", _ready),
            effects.Inspected: ("inspected", _inspected),
            effects.FenceReached: ("fence_reached", _fence_reached),
            effects.CallbackRequest: ("callback_request", _callback_request),
            effects.CallbackCancelled: ("callback_cancelled", _callback_cancelled),
            effects.Poisoned: ("poisoned", _poisoned),
            effects.Notice: ("notice", _notice),
            effects.SliceAdded: ("slice_added", _slice_added),
            effects.SliceWaiting: ("slice_waiting", _slice_waiting),
            effects.SliceSuspended: ("slice_suspended", _slice_suspended),
            effects.SliceResumed: ("slice_resumed", _slice_resumed),
            **REPLY_TABLE,
        }

    def _upload_grant(self, reply: effects.UploadGrant) -> bytes:
        targets = [
            sessions_pb2.DataTicket(address=self._address_of(host), ticket=self._tickets.transfer(transfer), host=host)
            for host, transfer in reply.targets
        ]
        return bytes(sessions_pb2.UploadGrant(upload_id=reply.upload_id, targets=targets).SerializeToString())

    def _fetch_ticket(self, reply: effects.FetchTicket) -> bytes:
        source = sessions_pb2.DataTicket(
            address=self._address_of(reply.source), ticket=self._tickets.fetch(reply.source_fetch), host=reply.source
        )
        message = sessions_pb2.FetchTicket(fetch_id=reply.fetch_id, source=source, size_bytes=reply.size_bytes)
        return bytes(message.SerializeToString())


def _prepare(command: effects.Prepare) -> bytes:
    message = workers_pb2.Prepare(
        execution_id=command.execution_id,
        executable_id=command.executable_id,
        arguments=command.arguments,
        first_result_id=command.first_result_id,
        non_donatable=command.non_donatable,
        launch_id=command.launch_id,
        sequence=command.sequence,
        previous=command.previous,
        epoch=command.epoch,
        timed=command.timed,
        stream=command.stream,
        landings=command.landings,
    )
    return bytes(message.SerializeToString())


def _grant(command: effects.Grant) -> bytes:
    message = workers_pb2.Grant(
        execution_id=command.execution_id, sequence=command.sequence, previous=command.previous, epoch=command.epoch
    )
    return bytes(message.SerializeToString())


def _cancel(command: effects.Cancel) -> bytes:
    return bytes(workers_pb2.Cancel(execution_id=command.execution_id).SerializeToString())


def _free(command: effects.Free) -> bytes:
    return bytes(workers_pb2.Free(ids=command.ids).SerializeToString())


def _poison(command: effects.Poison) -> bytes:
    return bytes(workers_pb2.Poison(ids=command.ids, failure=failure_to_proto(command.failure)).SerializeToString())


def _local_shard(shard: effects.LocalShard) -> workers_pb2.LocalShard:
    return workers_pb2.LocalShard(id=shard.id, local_index=shard.local_index)


def _local_piece(piece: effects.LocalPiece) -> workers_pb2.LocalPiece:
    if piece.local is not None:
        return workers_pb2.LocalPiece(local_device=piece.local_device, local=_local_shard(piece.local))
    if piece.transfer_id:
        return workers_pb2.LocalPiece(local_device=piece.local_device, transfer_id=piece.transfer_id)
    if piece.inline is not None:
        return workers_pb2.LocalPiece(local_device=piece.local_device, inline=piece.inline)
    return workers_pb2.LocalPiece(local_device=piece.local_device, boxes=[_local_box(box) for box in piece.boxes])


def _local_box(box: effects.LocalBox) -> workers_pb2.LocalBox:
    if box.local is None:
        return workers_pb2.LocalBox(start=box.start, shape=box.shape, transfer_id=box.transfer_id)
    return workers_pb2.LocalBox(start=box.start, shape=box.shape, local=_local_shard(box.local), local_start=box.local_start)


def _place_array(command: effects.PlaceArray) -> bytes:
    message = workers_pb2.PlaceArray(
        buffer_id=command.buffer_id,
        spec=spec_to_proto(command.spec),
        pieces=[_local_piece(piece) for piece in command.pieces],
        transfer_id=command.transfer_id,
    )
    return bytes(message.SerializeToString())


def _place_view(command: effects.PlaceView) -> bytes:
    message = workers_pb2.PlaceView(view_id=command.view_id, shards=[_local_shard(shard) for shard in command.shards])
    return bytes(message.SerializeToString())


def _await_ready(command: effects.AwaitReady) -> bytes:
    return bytes(workers_pb2.AwaitReady(wait_id=command.wait_id, ids=command.ids).SerializeToString())


def _unload(command: effects.Unload) -> bytes:
    return bytes(workers_pb2.Unload(executable_ids=command.executable_ids).SerializeToString())


def _inspect(command: effects.InspectExecutable) -> bytes:
    message = workers_pb2.InspectExecutable(inspect_id=command.inspect_id, executable_id=command.executable_id, kind=command.kind)
    return bytes(message.SerializeToString())


def _start_coordinator(command: effects.StartCoordinator) -> bytes:
    return bytes(workers_pb2.StartCoordinator(epoch=command.epoch, rank_count=command.rank_count).SerializeToString())


def _epoch_begin(command: effects.EpochBegin) -> bytes:
    message = workers_pb2.EpochBegin(
        epoch=command.epoch,
        rank=command.rank,
        rank_count=command.rank_count,
        coordinator_address=command.coordinator_address,
        device_count=command.device_count,
    )
    return bytes(message.SerializeToString())


def _probe(command: effects.Probe) -> bytes:
    return bytes(workers_pb2.Probe(number=command.number).SerializeToString())


def _epoch_end(command: effects.EpochEnd) -> bytes:
    message = workers_pb2.EpochEnd(epoch=command.epoch, timeout_ns=command.timeout_ns)
    for each in command.keep:
        message.keep.add(buffer_id=each.buffer_id, stored_id=each.stored_id, spill_number=each.spill_number, shards=each.shards)
    return bytes(message.SerializeToString())


def _spill_array(command: effects.SpillArray) -> bytes:
    message = spilling_pb2.SpillArray(buffer_id=command.buffer_id, spill_number=command.spill_number)
    return bytes(message.SerializeToString())


def _restore_array(command: effects.RestoreArray) -> bytes:
    message = spilling_pb2.RestoreArray(buffer_id=command.buffer_id, spill_number=command.spill_number)
    return bytes(message.SerializeToString())


def _drop_spilled(command: effects.DropSpilled) -> bytes:
    return bytes(spilling_pb2.DropSpilled(ids=command.ids).SerializeToString())


def _report_holdings(command: effects.ReportHoldings) -> bytes:
    return bytes(workers_pb2.ReportHoldings(request_id=command.request_id).SerializeToString())


def _cancel_transfer(command: effects.CancelTransfer) -> bytes:
    message = workers_pb2.CancelTransfer(transfer_ids=command.transfer_ids, session_number=command.session)
    return bytes(message.SerializeToString())


def _callback_reply(command: effects.CallbackReply) -> bytes:
    message = workers_pb2.CallbackReply(call_id=command.call_id, failure=_optional(command.failure))
    return bytes(message.SerializeToString()) + (b"" if command.failure else delimited(_RESULTS, command.results))


def _callback_abort(command: effects.CallbackAbort) -> bytes:
    return bytes(workers_pb2.CallbackAbort(session_number=command.session).SerializeToString())


def _shutdown(command: effects.Shutdown) -> bytes:
    return bytes(workers_pb2.Shutdown(reason=command.reason, refused=command.refused).SerializeToString())


def _open_cell(command: effects.OpenCell) -> bytes:
    return bytes(workers_pb2.OpenCell(tenant=command.tenant).SerializeToString())


def _close_cell(command: effects.CloseCell) -> bytes:
    return bytes(workers_pb2.CloseCell(tenant=command.tenant).SerializeToString())


def _compiled(reply: effects.Compiled) -> bytes:
    message = sessions_pb2.Compiled(executable_id=reply.executable_id, failure=_optional(reply.failure))
    return bytes(message.SerializeToString()) + (b"" if reply.facts is None else delimited(_INFO, reply.facts.payload))


def _upload_withdrawn(reply: effects.UploadWithdrawn) -> bytes:
    message = sessions_pb2.UploadWithdrawn(upload_id=reply.upload_id, failure=failure_to_proto(reply.failure))
    return bytes(message.SerializeToString())


def _fetched(reply: effects.Fetched) -> bytes:
    return bytes(sessions_pb2.Fetched(fetch_id=reply.fetch_id, data=reply.data).SerializeToString())


def _fetch_failed(reply: effects.FetchFailed) -> bytes:
    message = sessions_pb2.FetchFailed(fetch_id=reply.fetch_id, failure=failure_to_proto(reply.failure))
    return bytes(message.SerializeToString())


def _ready(reply: effects.Ready) -> bytes:
    return bytes(sessions_pb2.Ready(wait_id=reply.wait_id, failure=_optional(reply.failure)).SerializeToString())


def _inspected(reply: effects.Inspected) -> bytes:
    message = sessions_pb2.Inspected(inspect_id=reply.inspect_id, failure=_optional(reply.failure))
    return bytes(message.SerializeToString()) + (b"" if reply.failure else delimited(_INSPECTION, reply.inspection))


def _fence_reached(reply: effects.FenceReached) -> bytes:
    return bytes(sessions_pb2.FenceReached(fence_id=reply.fence_id).SerializeToString())


def _callback_request(reply: effects.CallbackRequest) -> bytes:
    message = sessions_pb2.CallbackRequest(call_id=reply.call_id, callback_id=reply.callback_id, timeout_ns=reply.timeout_ns)
    return bytes(message.SerializeToString()) + delimited(_OPERANDS, reply.operands)


def _callback_cancelled(reply: effects.CallbackCancelled) -> bytes:
    return bytes(sessions_pb2.CallbackCancelled(call_id=reply.call_id).SerializeToString())


def _poisoned(reply: effects.Poisoned) -> bytes:
    message = sessions_pb2.Poisoned(buffer_ids=reply.buffer_ids, failure=failure_to_proto(reply.failure))
    return bytes(message.SerializeToString())


def _notice(reply: effects.Notice) -> bytes:
    return bytes(sessions_pb2.Notice(host=reply.host, text=reply.text).SerializeToString())


def _slice_added(reply: effects.SliceAdded) -> bytes:
    message = sessions_pb2.SliceAdded(
        slice_id=reply.slice_id, devices=reply.devices, island=reply.island, hosts=reply.hosts, kind=reply.kind,
        failure=_optional(reply.failure),
    )  # fmt: skip
    return bytes(message.SerializeToString())


def _slice_waiting(reply: effects.SliceWaiting) -> bytes:
    return bytes(sessions_pb2.SliceWaiting(slice_id=reply.slice_id, text=reply.text).SerializeToString())


def _slice_suspended(reply: effects.SliceSuspended) -> bytes:
    message = sessions_pb2.SliceSuspended(slice_id=reply.slice_id, failure=_optional(reply.failure))
    return bytes(message.SerializeToString())


def _slice_resumed(reply: effects.SliceResumed) -> bytes:
    message = sessions_pb2.SliceResumed(
        slice_id=reply.slice_id, island=reply.island, hosts=reply.hosts, failure=_optional(reply.failure)
    )
    return bytes(message.SerializeToString())
