"""Whose work and memory a token shows: a tenant its own and nothing of another's, the administrator everything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc, sessions_pb2_grpc, tenants_pb2, tenants_pb2_grpc, workers_pb2_grpc
from pathways_server.app import App
from pathways_server.config import Config
from pathways_server.core.tenant_records import TenantName
from pathways_server.rpc.clusters import ClustersService
from pathways_server.rpc.views import Views
from pathways_server.shell.counters import Counters

from tests.unit.core.core_driver import Driver
from tests.unit.server_shell.scripted_core import TIMEOUT_S, join, open_session
from tests.unit.server_shell.test_shell_with_the_core import play_worker


def test_a_tenants_token_shows_its_own_sessions_and_no_leaks(tmp_path: Path) -> None:
    async def scenario() -> None:
        app = App(Config(listen="127.0.0.1:0", state_dir=tmp_path, metrics_port=-1))
        await app.start()
        running = asyncio.create_task(app.run())
        administrator, secret = ((tmp_path / name).read_text().strip() for name in ("token", "secret"))
        async with open_channel(app.address) as channel:
            worker = workers_pb2_grpc.WorkersStub(channel).Connect(metadata=bearer(secret), timeout=60)
            await join(worker)
            playing = asyncio.create_task(play_worker(worker))
            tenants, clusters = tenants_pb2_grpc.TenantsStub(channel), cluster_pb2_grpc.ClustersStub(channel)
            request = tenants_pb2.AddTenantRequest(request_id="1", name="ads")
            token = (await tenants.AddTenant(request, metadata=bearer(administrator), timeout=TIMEOUT_S)).token
            connect = sessions_pb2_grpc.SessionsStub(channel).Connect
            calls = [connect(metadata=bearer(each), timeout=60) for each in (administrator, token)]
            for call in calls:
                await open_session(call)

            async def asked(method: str, each: str, **fields: Any) -> Any:
                question = getattr(cluster_pb2, f"{method}Request")(**fields)
                return await getattr(clusters, method)(question, metadata=bearer(each), timeout=TIMEOUT_S)

            async def shown(each: str, **fields: Any) -> list[tuple[int, str]]:
                answer = await asked("ListBuffers", each, **fields)
                return [(session.session_number, session.tenant) for session in answer.sessions]

            everything = await shown(administrator)
            assert [tenant for _, tenant in everything] == ["default", "ads"]
            (default, _), (own, _) = everything
            assert await shown(token) == [(own, "ads")]
            assert await shown(token, tenant="ads") == [(own, "ads")]
            assert await shown(token, tenant="default") == []
            assert await shown(token, session_number=default) == []
            assert await shown(administrator, tenant="ads") == [(own, "ads")]
            assert list((await asked("ListWork", token)).work) == []
            assert f"session {own} " in (await asked("Explain", token, session_number=own)).sentences[0]
            with pytest.raises(grpc.RpcError, match=f"session {default} is not open"):
                await asked("Explain", token, session_number=default)
            with pytest.raises(grpc.RpcError, match="needs the cluster's own token") as caught:
                await asked("FindLeaks", token)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            for call in calls:
                call.cancel()
            worker.cancel()
            playing.cancel()
        app.stop("the test is over")
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("audience", "turn", "devices"),
    [
        (None, "session 1 (1 in flight)", "slice 1 of session 1 (test)"),
        (TenantName("maps"), "another tenant (1 in flight)", "another tenant"),
    ],
)
def test_what_is_waited_for_names_another_tenants_session_to_administrators_alone(
    audience: TenantName | None, turn: str, devices: str
) -> None:
    driver = Driver(window_gangs=1, pool_slices=2)
    for number, tenant in enumerate(("ads", "maps"), 1):
        driver.open(number, tenant=tenant)
        driver.compile(1, session=number)
        driver.execute(1, (), 20, session=number)
    driver.add_slice(1, 2, session=1, exclusive=True)
    driver.add_slice(1, 2, session=2, wait=True)
    loop: Any = SimpleNamespace(core=driver.core, hosts={})
    views = Views(loop, lambda context: context)
    callers: Any = SimpleNamespace(visible_tenant=lambda context: context)
    clusters = ClustersService(loop, Counters(), 1, "0.1.0", callers)

    async def asked() -> tuple[Any, Any, Any, Any]:
        return (
            await views.list_work(cluster_pb2.ListWorkRequest(tenant="maps"), audience),
            await views.explain(cluster_pb2.ExplainRequest(session_number=2), audience),
            await views.explain(cluster_pb2.ExplainRequest(session_number=2, slice_id=1), audience),
            await clusters.get_status(cluster_pb2.GetStatusRequest(), audience),
        )

    work, session, held, status = asyncio.run(asked())
    assert [row.waits_for.holder for row in work.work] == [turn]
    assert {reason.holder == turn or devices in reason.holder for reason in session.reasons} == {True}
    assert devices in held.sentences[0]
    assert [devices in each.waits_for for each in status.slices if each.session_number == 2] == [True]
    everything = f"{work}{session}{held}{status}"
    assert ("session 1" in everything) is (audience is None)
