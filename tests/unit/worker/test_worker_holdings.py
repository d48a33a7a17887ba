"""What a daemon says it holds, between the commands before the question and those after; sessions take their bytes along."""

from __future__ import annotations

from pathlib import Path

from pathways_proto.v1 import workers_pb2

from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_data import Command, expect, fetch, push

TRANSFER, TICKET = workers_pb2.HELD_KIND_TRANSFER, workers_pb2.HELD_KIND_TICKET
SESSION = 7


def ask(number: int) -> Command:
    return Command(report_holdings=workers_pb2.ReportHoldings(request_id=number))


async def told(controller: FakeController, number: int) -> workers_pb2.Holdings:
    """The daemon's answer."""

    def found() -> list[workers_pb2.Holdings]:
        return [each for each in controller.of("holdings") if each.request_id == number and each.daemon]

    return (await until(found, f"answer {number}"))[0]


def objects(answer: workers_pb2.Holdings) -> list[tuple[int, list[int], list[int], list[int]]]:
    return [(each.kind, list(each.ids), list(each.size_bytes), list(each.sessions)) for each in answer.objects]


def test_a_daemon_tells_its_transfers_and_tickets_and_a_closed_session_takes_its_own(tmp_path: Path) -> None:
    buffer = SESSION << 40 | 5

    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.send(ask(1))
            nobody = await told(controller, 1)
            assert (nobody.epoch, objects(nobody)) == (0, [])
            await controller.enter()
            await controller.send(expect(buffer, 6), expect(6, 8), ask(2))
            answer = await told(controller, 2)
            assert (answer.epoch > 0, objects(answer)) == (True, [(TRANSFER, [buffer, 6], [], [])])
            await push(app, f"up-{buffer}", b"stored")
            await controller.event("landed")
            await controller.send(fetch(71, buffer, "down"))
            await until(lambda: app.agent.transfers.held_bytes == 6, "the bytes of the fetch")
            await controller.send(ask(3), Command(cancel_transfer=workers_pb2.CancelTransfer(session_number=SESSION)), ask(4))
            assert objects(await told(controller, 3)) == [(TRANSFER, [6], [], []), (TICKET, [71], [6], [SESSION])]
            assert objects(await told(controller, 4)) == [(TRANSFER, [6], [], [])]
            assert app.agent.transfers.held_bytes == 0

    run(scenario())
