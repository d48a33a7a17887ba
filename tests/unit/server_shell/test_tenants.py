"""Tenants over the wire: whose session a token opens, who may change what, what each is shown, and that all of it stays."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest
from pathways_common.model.ids import IslandName
from pathways_common.rpc.auth import bearer
from pathways_proto.v1 import cluster_pb2, sessions_pb2, tenants_pb2, tenants_pb2_grpc
from pathways_server.config import parse_arguments
from pathways_server.core import effects, events
from pathways_server.core.cells import make_island
from pathways_server.core.share_records import Policy
from pathways_server.core.snapshot import IslandFigures, SessionFigures, SliceFigures, Snapshot
from pathways_server.core.tenant_records import Declared, Priority

from tests.unit.server_shell import scripted_core
from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller

both = pytest.mark.parametrize("transport", ["grpc", "framed"])


def service(running: Controller) -> Any:
    return tenants_pb2_grpc.TenantsStub(running.channel)


async def ask(running: Controller, method: str, request: Any, token: str = "") -> Any:
    call = getattr(service(running), method)
    return await call(request, metadata=bearer(token or running.token), timeout=TIMEOUT_S)


async def refused(running: Controller, method: str, request: Any, token: str = "") -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(running, method, request, token)
    return caught.value.code(), caught.value.details() or ""


async def added(running: Controller, name: str, **settings: Any) -> str:
    request = tenants_pb2.AddTenantRequest(request_id=f"add {name}", name=name, settings=tenants_pb2.TenantSettings(**settings))
    return str((await ask(running, "AddTenant", request)).token)


async def greeted(running: Controller, token: str, tenant: str = "") -> Any:
    """The first answer to a hello."""
    call = running.session_call(token)
    await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="test", tenant=tenant)))
    return await asyncio.wait_for(call.read(), TIMEOUT_S)


@both
def test_a_session_belongs_to_the_tenant_whose_token_opened_it(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            token = await added(running, "ads")
            assert (await greeted(running, token)).HasField("welcome")
            assert (await greeted(running, running.token)).HasField("welcome")
            assert (await greeted(running, running.token, "ads")).HasField("welcome")
            opened = await running.core.wait_for(events.SessionOpened, 3)
            assert [event.tenant for event in opened] == ["ads", "default", "ads"]

    asyncio.run(scenario())


@both
def test_a_tenant_cannot_open_a_session_of_another(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            token = await added(running, "ads")
            failure = (await greeted(running, token, "default")).refused.failure
            assert failure.reason == "UNAUTHENTICATED"
            assert "belongs to tenant ads and cannot open a session of tenant 'default'" in failure.message
            failure = (await greeted(running, running.token, "nobody")).refused.failure
            assert (failure.reason, "there is no tenant 'nobody'" in failure.message) == ("INVALID_ARGUMENT", True)
            assert not running.core.of(events.SessionOpened)

    asyncio.run(scenario())


def test_without_tokens_everybody_is_default_unless_the_hello_names_a_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, auth=False) as running:
            await added(running, "ads")
            assert (await greeted(running, "anything")).HasField("welcome")
            assert (await greeted(running, "anything", "ads")).HasField("welcome")
            assert (await greeted(running, "anything", "adz")).HasField("refused")
            opened = await running.core.wait_for(events.SessionOpened, 2)
            assert [event.tenant for event in opened] == ["default", "ads"]

    asyncio.run(scenario())


@both
def test_another_token_ends_the_old_one(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            old = await added(running, "ads")
            request = tenants_pb2.ReplaceTokenRequest(request_id="1", name="ads")
            new = (await ask(running, "ReplaceToken", request)).token
            assert new != old
            assert (await greeted(running, new)).HasField("welcome")
            call = running.session_call(old)
            if transport == "framed":
                assert (await call.read()).refused.failure.reason == "UNAUTHENTICATED"
            else:
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED

    asyncio.run(scenario())


def test_tokens_are_kept_as_hashes_and_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> str:
        async with controller(tmp_path) as running:
            token = await added(running, "ads")
            await greeted(running, token)
            return token

    with caplog.at_level(logging.DEBUG):
        token = asyncio.run(scenario())
    assert len(token) == 43  # 32 bytes in base 64
    with sqlite3.connect(tmp_path / "journal.sqlite") as database:
        assert database.execute("select * from tenants").fetchall() == [("ads", hashlib.sha256(token.encode()).digest())]
        kept = "".join(database.iterdump())
    assert token not in kept
    said = " ".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "AddTenant" in said
    assert token not in said


def test_settings_reach_the_core_at_once_and_survive_a_restart(tmp_path: Path) -> None:
    wanted = Declared(4, Priority.HIGH, 8, 2 << 30, 3, 64, waits=False)

    async def first() -> str:
        async with controller(tmp_path) as running:
            token = await added(running, "ads", weight=2, devices_max=8)
            await running.core.wait_for(events.TenantSet)
            settings = tenants_pb2.TenantSettings(
                weight=4, priority="PRIORITY_HIGH", memory_bytes_max=2 << 30, sessions_max=3, programs_max=64, over="OVER_FAIL"
            )
            request = tenants_pb2.SetTenantRequest(request_id="1", name="ads", settings=settings)
            answer = await ask(running, "SetTenant", request)
            assert answer.settings.devices_max == 8
            assert await running.core.wait_for(events.TenantSet, 2) == [
                events.TenantSet("ads", Declared(weight=2, devices_max=8)),  # type: ignore[arg-type]
                events.TenantSet("ads", wanted),  # type: ignore[arg-type]
            ]
            return token

    async def second(token: str) -> None:
        async with controller(tmp_path) as running:
            assert (await running.core.wait_for(events.TenantSet))[0] == events.TenantSet("ads", wanted)  # type: ignore[arg-type]
            assert (await greeted(running, token)).HasField("welcome")

    token = asyncio.run(first())
    asyncio.run(second(token))


def test_a_repeated_call_is_answered_as_the_first_time_and_done_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads", weight=3)
            assert await added(running, "ads", weight=3) == token
            request = tenants_pb2.ReplaceTokenRequest(request_id="again", name="ads")
            new = await ask(running, "ReplaceToken", request)
            assert await ask(running, "ReplaceToken", request) == new
            lines = (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest())).lines
            assert [line.action for line in lines] == ["ReplaceToken", "AddTenant"]
            code, sentence = await refused(running, "ReplaceToken", tenants_pb2.ReplaceTokenRequest(name="ads"))
            assert (code, "request_id must be set" in sentence) == (grpc.StatusCode.INVALID_ARGUMENT, True)

    asyncio.run(scenario())


def test_a_tenant_changes_nothing_but_what_happens_beyond_its_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads", weight=2)
            await added(running, "web")
            request = tenants_pb2.SetTenantRequest(
                request_id="1", name="ads", settings=tenants_pb2.TenantSettings(over="OVER_FAIL")
            )
            assert (await ask(running, "SetTenant", request, token)).settings.over == tenants_pb2.OVER_FAIL
            settings = tenants_pb2.TenantSettings(over="OVER_FAIL", weight=1000)
            attempts = [
                ("SetTenant", tenants_pb2.SetTenantRequest(request_id="2", name="ads", settings=settings)),
                ("SetTenant", tenants_pb2.SetTenantRequest(request_id="3", name="web", settings=request.settings)),
                ("SetTenant", tenants_pb2.SetTenantRequest(request_id="4", name="ads", cleared=["weight"])),
                ("AddTenant", tenants_pb2.AddTenantRequest(request_id="5", name="more")),
                ("ReplaceToken", tenants_pb2.ReplaceTokenRequest(request_id="6", name="ads")),
                ("RemoveTenant", tenants_pb2.RemoveTenantRequest(request_id="7", name="web")),
                ("ListAudit", tenants_pb2.ListAuditRequest()),
            ]
            for method, attempt in attempts:
                code, sentence = await refused(running, method, attempt, token)
                assert code is grpc.StatusCode.UNAUTHENTICATED, method
                assert "needs the administrator's token" in sentence
                assert "belongs to tenant ads" in sentence
            for method, attempt in attempts:
                assert (await refused(running, method, attempt, "wrong"))[0] is grpc.StatusCode.UNAUTHENTICATED

    asyncio.run(scenario())


def test_audit_lines_say_who_did_what_from_where_and_are_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads", weight=2)
            for number, weight in enumerate((5, 7)):
                settings = tenants_pb2.TenantSettings(weight=weight)
                request = tenants_pb2.SetTenantRequest(request_id=f"w{number}", name="ads", settings=settings)
                await ask(running, "SetTenant", request)
            settings = tenants_pb2.TenantSettings(over="OVER_FAIL")
            request = tenants_pb2.SetTenantRequest(request_id="o", name="ads", settings=settings)
            await ask(running, "SetTenant", request, token)
            lines = (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest(count=3))).lines
            assert [(line.tenant, line.action, line.subject, line.before, line.after) for line in lines] == [
                ("ads", "SetTenant", "ads", "over=wait", "over=fail"),
                ("default", "SetTenant", "ads", "weight=5", "weight=7"),
                ("default", "SetTenant", "ads", "weight=2", "weight=5"),
            ]
            assert all(line.peer.startswith(("ipv4:127.0.0.1:", "ipv6:")) for line in lines)
            running.app._tenants._audit_lines_max = 2
            request.request_id = "p"
            await ask(running, "SetTenant", request, token)
            lines = (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest())).lines
            assert [line.number for line in lines] == [5, 4]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("", {}, "'' cannot be the name of a tenant"),
        ("a b", {}, "'a b' cannot be the name of a tenant"),
        ("default", {}, "there is a tenant 'default' already"),
        ("x" * 65, {}, "cannot be the name of a tenant"),
        ("ads", {"weight": 0}, "the setting weight is '0' (in the request); it must be a whole number from 1 to 1000000"),
        ("ads", {"memory_bytes_max": -5}, "the setting max_memory is '-5' (in the request); it must be a size such as 512M"),
        ("ads", {"priority": 9}, "the setting priority is '9' (in the request); it must be low, normal or high"),
        ("ads", {"sessions_max": 1 << 30}, "the setting max_sessions is"),
    ],
)
def test_bad_values_are_one_sentence(tmp_path: Path, name: str, settings: dict[str, Any], sentence: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            message = tenants_pb2.TenantSettings(**settings)
            request = tenants_pb2.AddTenantRequest(request_id="1", name=name, settings=message)
            code, said = await refused(running, "AddTenant", request)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert sentence in said
            assert "\n" not in said
            assert not (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest())).lines

    asyncio.run(scenario())


def test_a_removed_tenant_is_nobody_and_its_sessions_end_only_when_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads")
            call = running.session_call(token)
            await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="test")))
            assert (await asyncio.wait_for(call.read(), TIMEOUT_S)).HasField("welcome")
            number = running.core.of(events.SessionOpened)[0].session
            tenants = running.core.state.tenants
            from pathways_server.core.tenant_records import Tenant, TenantName

            tenants[TenantName("ads")] = Tenant(TenantName("ads"), sessions={number: None})  # type: ignore[dict-item]
            request = tenants_pb2.RemoveTenantRequest(request_id="1", name="ads")
            code, sentence = await refused(running, "RemoveTenant", request)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert f"tenant 'ads' has 1 sessions ({number})" in sentence
            request.end_sessions = True
            await ask(running, "RemoveTenant", request)
            lost = (await asyncio.wait_for(call.read(), TIMEOUT_S)).operations[-1].session_lost.failure
            assert "its tenant was removed" in lost.message
            assert await running.core.wait_for(events.TenantRemoved) == [events.TenantRemoved("ads")]  # type: ignore[arg-type]
            assert (await refused(running, "ListTenants", tenants_pb2.ListTenantsRequest(), token))[0] is (
                grpc.StatusCode.UNAUTHENTICATED
            )
            for name in ("ads", "default"):
                again = tenants_pb2.RemoveTenantRequest(request_id=f"again {name}", name=name)
                assert (await refused(running, "RemoveTenant", again))[0] is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(scenario())


def test_a_tenant_is_shown_nothing_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads")
            await added(running, "web")
            running.core.view = Snapshot(
                tuple(
                    IslandFigures(name, "ACTIVE", 1, (), 0, 0, 0, "", tenant=whose)
                    for name, whose in (("a", ""), ("a+ads", "ads"), ("a+web", "web"))
                ),
                tuple(SessionFigures(n, "c", ("a",), 1, 0, 0, 0, 0, 0.0, name) for n, name in enumerate(("ads", "web"), 1)),
                tuple(SliceFigures(n, n, "BOUND", "a", (), (), 1, False, "", name) for n, name in enumerate(("ads", "web"), 1)),
            )
            views = running.clusters()
            seen = await views.GetStatus(cluster_pb2.GetStatusRequest(), metadata=bearer(token), timeout=TIMEOUT_S)
            assert [(session.session_number, session.tenant) for session in seen.sessions] == [(1, "ads")]
            assert [(held.session_number, held.tenant) for held in seen.slices] == [(1, "ads")]
            assert [island.name for island in seen.islands] == ["a", "a+ads"]
            seen = await views.GetStatus(cluster_pb2.GetStatusRequest(), metadata=bearer(running.token), timeout=TIMEOUT_S)
            assert [session.tenant for session in seen.sessions] == ["ads", "web"]
            assert [held.tenant for held in seen.slices] == ["ads", "web"]
            assert [island.tenant for island in seen.islands] == ["", "ads", "web"]
            listed = await ask(running, "ListTenants", tenants_pb2.ListTenantsRequest(), token)
            assert [tenant.name for tenant in listed.tenants] == ["ads"]
            listed = await ask(running, "ListTenants", tenants_pb2.ListTenantsRequest())
            assert [tenant.name for tenant in listed.tenants] == ["ads", "default", "web"]
            running.core.answers[events.TraceRequested] = lambda event: [
                effects.TraceReady(event.request_id, 1, 0, event.tenant or "anybody's", (), (), 0, 0, None)
            ]
            for sent, tenant in ((token, "ads"), (running.token, "anybody's")):
                trace = await views.GetTrace(cluster_pb2.GetTraceRequest(), metadata=bearer(sent), timeout=TIMEOUT_S)
                assert trace.program == tenant

    asyncio.run(scenario())


def test_the_file_declares_tenants_and_what_is_set_wins_setting_by_setting(tmp_path: Path) -> None:
    async def scenario(file: dict[str, dict[str, str]], wanted: Declared, setting: tenants_pb2.SetTenantRequest | None) -> None:
        async with controller(tmp_path, tenants=file) as running:
            assert (await running.core.wait_for(events.TenantSet))[0].declared == wanted
            listed = await ask(running, "ListTenants", tenants_pb2.ListTenantsRequest())
            assert [tenant.name for tenant in listed.tenants] == ["ads", "default"]
            assert not listed.tenants[0].has_token
            if setting is not None:
                await ask(running, "SetTenant", setting)
            request = tenants_pb2.RemoveTenantRequest(request_id="1", name="ads")
            assert "is declared in the configuration file" in (await refused(running, "RemoveTenant", request))[1]

    file = {"ads": {"weight": "4", "priority": "high"}}
    setting = tenants_pb2.SetTenantRequest(request_id="1", name="ads", settings=tenants_pb2.TenantSettings(weight=9))
    asyncio.run(scenario(file, Declared(weight=4, priority=Priority.HIGH), setting))
    file["ads"] |= {"weight": "5", "max_devices": "3"}
    cleared = tenants_pb2.SetTenantRequest(request_id="1", name="ads", cleared=["weight"])
    asyncio.run(scenario(file, Declared(weight=9, priority=Priority.HIGH, devices_max=3), cleared))
    asyncio.run(scenario(file, Declared(weight=5, priority=Priority.HIGH, devices_max=3), None))


def test_an_administrator_chooses_the_policy_of_islands_and_it_is_audited(tmp_path: Path) -> None:
    async def story() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "web")
            for name in ("a", "b"):
                make_island(running.core.state, IslandName(name))
            fifo = tenants_pb2.SetPolicyRequest(request_id="1", island="b", policy=tenants_pb2.POLICY_FIFO)
            assert (await refused(running, "SetPolicy", fifo, token))[0] is grpc.StatusCode.UNAUTHENTICATED
            assert list((await ask(running, "SetPolicy", fifo)).islands) == ["b"]
            assert await running.core.wait_for(events.PolicySet) == [events.PolicySet(IslandName("b"), Policy.FIFO)]
            (line,) = (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest(count=1))).lines
            assert (line.action, line.subject, line.before, line.after) == ("SetPolicy", "b", "proportional_share", "fifo")
            every = tenants_pb2.SetPolicyRequest(request_id="2", policy=tenants_pb2.POLICY_PRIORITY)
            assert list((await ask(running, "SetPolicy", every)).islands) == ["a", "b"]
            wrong = tenants_pb2.SetPolicyRequest(request_id="3", island="c", policy=tenants_pb2.POLICY_FIFO)
            assert "there is no island 'c'; the cluster has a, b" in (await refused(running, "SetPolicy", wrong))[1]
            for number in (0, 9):
                nothing = tenants_pb2.SetPolicyRequest(request_id=f"none {number}", policy=number)  # type: ignore[arg-type]
                assert (await refused(running, "SetPolicy", nothing))[0] is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(story())


def test_a_policy_that_was_set_stays_and_yields_to_the_command_line_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(*arguments: str, chosen: tuple[tuple[str, int], ...] = ()) -> tuple[dict[str, str], str]:
        """The policies that a start has; then islands get others."""
        config = parse_arguments(list(arguments), {})
        given = {name: getattr(config, name) for name in ("policy", "island_policies", "policies_insisted")}
        async with controller(tmp_path, **given) as running:
            for name in ("a", "b"):
                make_island(running.core.state, IslandName(name))
            for island, policy in chosen:
                request = tenants_pb2.SetPolicyRequest(request_id=island, island=island, policy=policy)  # type: ignore[arg-type]
                await ask(running, "SetPolicy", request)
            decided = running.core.config
            return dict(decided.island_policies), decided.policy

    file = tmp_path / "server.toml"
    file.write_text('policy = "a=priority,b=priority,c=priority"')
    from_file = {"a": "priority", "b": "priority", "c": "priority"}
    chosen = (("a", tenants_pb2.POLICY_FIFO), ("b", tenants_pb2.POLICY_PROPORTIONAL_SHARE), ("a", tenants_pb2.POLICY_FIFO))
    assert asyncio.run(life("--config", str(file), chosen=chosen)) == (from_file, "proportional_share")
    kept = {**from_file, "a": "fifo", "b": "proportional_share"}
    assert asyncio.run(life("--config", str(file))) == (kept, "proportional_share")
    assert asyncio.run(life()) == ({"a": "fifo", "b": "proportional_share"}, "proportional_share")
    said = "policy of the command line in place of what was set at run time"
    assert not [record for record in caplog.records if record.message == said]
    assert asyncio.run(life("--policy", "a=priority")) == ({"a": "priority", "b": "proportional_share"}, "proportional_share")
    assert asyncio.run(life("--policy", "a=fifo")) == ({"a": "fifo", "b": "proportional_share"}, "proportional_share")
    assert asyncio.run(life("--policy", "priority")) == ({}, "priority")
    assert asyncio.run(life()) == ({"a": "fifo", "b": "proportional_share"}, "proportional_share")
    lines = [vars(record)["fields"]["islands"] for record in caplog.records if record.message == said]
    assert lines == ["a: priority, not fifo", "a: priority, not fifo; b: priority, not proportional_share"]


def test_deaths_are_kept_listed_and_forgotten_when_a_program_is_allowed(tmp_path: Path) -> None:
    program = "3fa9c2d41b07" + "0" * 52
    deaths = tuple(events.Death(program, "of train.py", "ads", "a0", "SIGSEGV", 1796040000 * 10**9 + n) for n in range(2))

    async def first() -> None:
        async with controller(tmp_path) as running:
            running.core.answers[events.SessionOpened] = lambda event: [
                *map(effects.KeepDeath, deaths), effects.SendToSession(event.session, scripted_core.WELCOME)
            ]  # fmt: skip
            await greeted(running, running.token)

    async def second() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "web")
            assert (await running.core.wait_for(events.DeathsRestored))[0].deaths == deaths
            running.core.state.deaths[program] = list(deaths)
            listed = (await ask(running, "ListQuarantine", tenants_pb2.ListQuarantineRequest())).programs
            assert [(held.program, held.name, held.tenant) for held in listed] == [(program[:12], "of train.py", "ads")]
            assert [(death.host, death.signal) for death in listed[0].deaths] == [("a0", "SIGSEGV")] * 2
            assert not (await ask(running, "ListQuarantine", tenants_pb2.ListQuarantineRequest(), token)).programs
            running.core.state.deaths[program].insert(0, deaths[0]._replace(name="of serve.py", tenant="web"))
            (held,) = (await ask(running, "ListQuarantine", tenants_pb2.ListQuarantineRequest(), token)).programs
            assert (held.name, held.tenant, len(held.deaths)) == ("of serve.py", "web", 3), "another tenant ran it last"
            del running.core.state.deaths[program][0]
            request = tenants_pb2.AllowProgramRequest(request_id="1", program=program[:12])
            assert (await refused(running, "AllowProgram", request, token))[0] is grpc.StatusCode.UNAUTHENTICATED
            for wrong in ("", "ffff"):
                wanted = tenants_pb2.AllowProgramRequest(request_id=f"wrong {wrong}", program=wrong)
                code, sentence = await refused(running, "AllowProgram", wanted)
                assert (code, "no such program ended an executor" in sentence) == (grpc.StatusCode.INVALID_ARGUMENT, True)
            await ask(running, "AllowProgram", request)
            assert await running.core.wait_for(events.ProgramAllowed) == [events.ProgramAllowed(program)]
            (line,) = (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest(count=1))).lines
            assert (line.action, line.subject, line.before) == ("AllowProgram", program, "2 deaths")

    async def third() -> None:
        async with controller(tmp_path) as running:
            await greeted(running, running.token)
            assert not running.core.of(events.DeathsRestored)

    asyncio.run(first())
    asyncio.run(second())
    asyncio.run(third())
