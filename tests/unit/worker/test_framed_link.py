"""The worker's link over a framed connection: taken when offered, refused like a gRPC stream, lost like one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from pathways_common.model.failure import PathwaysError
from pathways_common.rpc.framed import SILENT_LOOKS_MAX, read_preface
from pathways_common.rpc.framed_call import FramedCall
from pathways_proto.v1 import cluster_pb2, types_pb2, workers_pb2
from pathways_worker.rpc.controller_link import ControllerLink

from tests.unit.worker.fake_controller import FakeController, daemon, run, until


class Context:
    """A framed connection as the fake controller's context: messages in and out."""

    def __init__(self, call: FramedCall) -> None:
        self.call = call

    async def read(self) -> Any:
        data = await self.call.read()
        return data if data is grpc.aio.EOF else workers_pb2.WorkerFrame.FromString(data)

    async def write(self, frame: workers_pb2.ControllerFrame) -> None:
        await self.call.write(frame.SerializeToString())


class FramedController(FakeController):
    """Offers a framed port beside its gRPC one. `says`: answer a connection with this failure in place of a welcome."""

    def __init__(self, says: types_pb2.Failure | None = None) -> None:
        super().__init__()
        self._says = says
        # What is sent to whoever comes, in place of an answer, before the connection is ended.
        self.first: bytes | None = None
        self.link_port = 0
        self.authorizations: list[tuple[str, str]] = []
        self.contexts: list[Context] = []
        self._serving: list[asyncio.Task[None]] = []

    async def start(self, port: int = 0) -> None:
        self._listener = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", 0)
        self.link_port = self.link_port or self._listener.sockets[0].getsockname()[1]
        await super().start(port)

    def handlers(self) -> dict[str, Any]:
        async def version(_request: Any, _context: Any) -> cluster_pb2.GetVersionResponse:
            return cluster_pb2.GetVersionResponse(link_port=self.link_port)

        answer = grpc.unary_unary_rpc_method_handler(
            version,
            request_deserializer=cluster_pb2.GetVersionRequest.FromString,
            response_serializer=cluster_pb2.GetVersionResponse.SerializeToString,
        )
        return {"pathways.v1.Clusters": {"GetVersion": answer}}

    def _accept(self) -> FramedCall:
        call = FramedCall()
        self._serving.append(asyncio.ensure_future(self._serve(Context(call))))
        return call

    async def _serve(self, context: Context) -> None:
        self.contexts.append(context)
        self.authorizations.append(read_preface(await context.call.read()))
        if self.first is not None:
            await context.call.read()
            await context.call.write(self.first)
            context.call.close()
            return
        if self._says is not None:
            refused = workers_pb2.WorkerRefused(failure=self._says)
            await context.write(workers_pb2.ControllerFrame(term=self.term, refused=refused))
        else:
            await self._connect(None, context)
        context.call.cancel()

    async def stop(self) -> None:
        self._listener.close()
        for context in self.contexts:
            context.call.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await super().stop()


def with_controller(scenario: Any, controller: FramedController) -> None:
    async def whole() -> None:
        await controller.start()
        try:
            await scenario(controller)
        finally:
            await controller.stop()

    run(whole())


def test_the_offered_port_is_taken_with_the_secret_and_commands_come_through_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")

    async def scenario(controller: FramedController) -> None:
        async with daemon(tmp_path, controller, auth=True):
            await controller.enter()
            prepare = workers_pb2.Prepare(execution_id=1, sequence=1, epoch=1)
            sent = await controller.send(workers_pb2.HostCommand(prepare=prepare))
            await until(lambda: controller.acknowledged == sent, "the acknowledgement")
            assert controller.authorizations == [("Workers", "Bearer the secret")]
            assert controller.frames[-1].finished_through == 1

    with_controller(scenario, FramedController())


def test_a_port_that_cannot_be_reached_is_replaced_by_grpc(tmp_path: Path) -> None:
    async def scenario(controller: FramedController) -> None:
        async with daemon(tmp_path, controller):
            await controller.enter()
            assert controller.contexts == []
            assert len(controller.hellos) == 1

    controller = FramedController()
    controller.link_port = 1  # nobody listens there
    with_controller(scenario, controller)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [("UNAUTHENTICATED", "refused this worker: no good"), ("INVALID_ARGUMENT", "did not understand this worker: no good")],
)
def test_what_another_try_cannot_mend_ends_the_daemon_with_its_sentence(tmp_path: Path, reason: str, sentence: str) -> None:
    async def scenario(controller: FramedController) -> None:
        with pytest.raises(PathwaysError) as refusal:
            async with daemon(tmp_path, controller) as app:
                await until(lambda: app._failure, "the daemon to give up")
        assert refusal.value.failure.reason.value == reason
        assert refusal.value.failure.message == f"the controller at grpc://127.0.0.1:{controller.port} {sentence}"
        assert len(controller.contexts) == 1

    with_controller(scenario, FramedController(types_pb2.Failure(reason=reason, message="no good")))


def test_a_hello_that_came_late_is_said_again(tmp_path: Path) -> None:
    async def scenario(controller: FramedController) -> None:
        async with daemon(tmp_path, controller):
            await until(lambda: len(controller.contexts) > 1, "another try")
            controller._says = None
            await controller.enter()

    with_controller(scenario, FramedController(types_pb2.Failure(reason="TIMED_OUT", message="too late", retryable=True)))


@pytest.mark.parametrize("first", [b"", b"\xff\xff\xff"], ids=["nothing", "nonsense"])
def test_a_controller_that_ends_before_its_welcome_is_tried_again_and_no_controller_is_not(tmp_path: Path, first: bytes) -> None:
    async def scenario(controller: FramedController) -> None:
        if first:
            with pytest.raises(PathwaysError, match="does not welcome workers"):
                async with daemon(tmp_path, controller) as app:
                    await until(lambda: app._failure, "the daemon to give up")
            return
        async with daemon(tmp_path, controller):
            await until(lambda: len(controller.contexts) > 1, "another try")
            controller.first = None
            await controller.enter()

    controller = FramedController()
    controller.first = first
    with_controller(scenario, controller)


def last_words(controller: FramedController) -> Any:
    failure = types_pb2.Failure(reason="INVALID_ARGUMENT", message="it said nonsense")
    return workers_pb2.ControllerFrame(term=controller.term, refused=workers_pb2.WorkerRefused(failure=failure))


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("ended", "the controller ended the stream"),
        ("silent", "nothing was heard of it any more"),
        ("last words", "it said nonsense"),
        ("too large", "malformed message: a frame of"),
    ],
)
def test_a_lost_link_names_its_cause_and_the_host_joins_anew(
    tmp_path: Path, what: str, cause: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    serve = ControllerLink._serve

    async def noted(self: ControllerLink, call: Any) -> tuple[str, bool]:
        calls.append(call)
        return await serve(self, call)

    monkeypatch.setattr(ControllerLink, "_serve", noted)

    async def scenario(controller: FramedController) -> None:
        async with daemon(tmp_path, controller):
            await controller.enter()
            first = controller.contexts[0]
            if what == "ended":
                controller.drop()
            elif what == "silent":
                for _ in range(SILENT_LOOKS_MAX + 1):
                    calls[0].look()
            elif what == "last words":
                await first.write(last_words(controller))
            else:
                first.call._transport.write(b"\xff\xff\xff\xff")  # type: ignore[union-attr]
            await until(lambda: len(controller.hellos) == 2, "the second hello")
            await controller.enter()
        lost = [record for record in caplog.records if record.message.startswith("link to the controller lost")]
        assert cause in str(lost[0].__dict__), lost[0].__dict__

    with_controller(scenario, FramedController())
