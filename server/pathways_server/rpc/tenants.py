"""The Tenants service: what is set for tenants, what they use, and what administrators did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pathways_common.model.failure import Failure, Reason, fail
from pathways_proto.v1 import tenants_pb2

from pathways_server.core import quarantine, tenant_figures
from pathways_server.core.audience import may_see
from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_records import Declared, Priority, TenantName
from pathways_server.rpc.callers import Callers
from pathways_server.rpc.form import bad, checked_words
from pathways_server.shell.accounts import Accounts
from pathways_server.shell.loop import Loop
from pathways_server.shell.tenant_book import By, TenantBook
from pathways_server.shell.tenant_journal import TenantJournal

Answer = TypeVar("Answer")
# Answers that a repeated call gets again. A client repeats a call within seconds.
_REMEMBERED_MAX = 256
_AUDIT_DEFAULT = 100
_PRIORITIES = {Priority.LOW: "PRIORITY_LOW", Priority.NORMAL: "PRIORITY_NORMAL", Priority.HIGH: "PRIORITY_HIGH"}
_REMOVED = Failure(Reason.CANCELLED, "the session was ended because its tenant was removed by an administrator")


class TenantsService:
    """Serves unary calls with decoded messages."""

    def __init__(self, loop: Loop, book: TenantBook, journal: TenantJournal, callers: Callers, accounts: Accounts) -> None:
        self._loop = loop
        self._book = book
        self._journal = journal
        self._callers = callers
        self._accounts = accounts
        self._answered: dict[tuple[str, str], Any] = {}

    def _once(self, method: str, request_id: str, act: Callable[[], Answer]) -> Answer:
        """Acts, or answers as it did before."""
        if not checked_words(request_id, "request_id"):
            raise bad("request_id must be set", "nothing")
        key = (method, request_id)
        if key not in self._answered:
            self._answered[key] = act()
            if len(self._answered) > _REMEMBERED_MAX:
                del self._answered[next(iter(self._answered))]
        answer: Answer = self._answered[key]
        return answer

    async def list_tenants(self, _request: tenants_pb2.ListTenantsRequest, context: Any) -> tenants_pb2.ListTenantsResponse:
        """Every tenant that the caller may see."""
        only = self._callers.visible_tenant(context)
        names = self._book.names() if only is None else [only]
        return tenants_pb2.ListTenantsResponse(tenants=[self._status(TenantName(name)) for name in names])

    def _status(self, name: TenantName) -> tenants_pb2.TenantStatus:
        figures = tenant_figures.take(self._loop.core.state, name)
        return tenants_pb2.TenantStatus(
            name=name,
            settings=settings_message(self._book.declared(name)),
            origins=self._book.origins(name),
            has_token=name in self._book.tokens,
            sessions=figures.sessions,
            devices=figures.devices,
            held_bytes=figures.held_bytes,
            programs_running=figures.programs_running,
            programs_waiting=figures.programs_waiting,
            device_seconds=figures.device_ns / 1e9,
            byte_seconds=figures.byte_ns / 1e9,
        )

    async def add_tenant(self, request: tenants_pb2.AddTenantRequest, context: Any) -> tenants_pb2.AddTenantResponse:
        """Makes a tenant and its token."""
        by = self._callers.administrator(context)
        return self._once(
            "add",
            request.request_id,
            lambda: tenants_pb2.AddTenantResponse(token=self._book.add(by, request.name, settings_texts(request.settings))),
        )

    async def replace_token(self, request: tenants_pb2.ReplaceTokenRequest, context: Any) -> tenants_pb2.ReplaceTokenResponse:
        """Another token."""
        by = self._callers.administrator(context)
        return self._once(
            "token",
            request.request_id,
            lambda: tenants_pb2.ReplaceTokenResponse(token=self._book.replace_token(by, request.name)),
        )

    async def set_tenant(self, request: tenants_pb2.SetTenantRequest, context: Any) -> tenants_pb2.SetTenantResponse:
        """Changes settings; a tenant may say for itself what happens beyond its limits."""
        by = self._callers.by(context)
        texts = settings_texts(request.settings)
        cleared = tuple(request.cleared)
        if by.caller.tenant != request.name or {*texts, *cleared} != {"over"}:
            by = self._callers.administrator(context)
        return self._once(
            "set",
            request.request_id,
            lambda: tenants_pb2.SetTenantResponse(settings=settings_message(self._book.set(by, request.name, texts, cleared))),
        )

    async def remove_tenant(self, request: tenants_pb2.RemoveTenantRequest, context: Any) -> tenants_pb2.RemoveTenantResponse:
        """Removes a tenant that has no sessions, or ends them."""
        by = self._callers.administrator(context)
        return self._once("remove", request.request_id, lambda: self._remove(by, request))

    def _remove(self, by: By, request: tenants_pb2.RemoveTenantRequest) -> tenants_pb2.RemoveTenantResponse:
        tenant = self._loop.core.state.tenants.get(TenantName(request.name))
        sessions = list(tenant.sessions) if tenant is not None else []
        if sessions and request.name in self._book and not request.end_sessions:
            numbers = ", ".join(map(str, sessions[:8])) + (", ..." if len(sessions) > 8 else "")
            sentence = f"tenant {request.name!r} has {len(sessions)} sessions ({numbers}); wait for them, or end them with it"
            raise fail(Reason.INVALID_ARGUMENT, f"{sentence} (--end-sessions)", tenant=request.name, sessions=len(sessions))
        self._accounts.write()
        self._book.remove(by, request.name)
        for number in sessions:
            peer = self._loop.sessions.get(number)
            if peer is not None:
                self._loop.end_session(peer, _REMOVED)
        return tenants_pb2.RemoveTenantResponse()

    async def get_usage(self, request: tenants_pb2.GetUsageRequest, context: Any) -> tenants_pb2.GetUsageResponse:
        """Accounts by day, up to now."""
        only = self._callers.visible_tenant(context)
        self._accounts.write()
        usage = [
            tenants_pb2.TenantUsage(
                day=row.day, tenant=row.tenant, device_seconds=row.device_ns / 1e9, byte_seconds=float(row.byte_seconds)
            )
            for row in self._journal.usage(checked_words(request.day, "day"))
            if only is None or row.tenant == only
        ]
        return tenants_pb2.GetUsageResponse(usage=usage)

    async def list_audit(self, request: tenants_pb2.ListAuditRequest, context: Any) -> tenants_pb2.ListAuditResponse:
        """What administrators did."""
        self._callers.administrator(context)
        lines = [
            tenants_pb2.AuditLine(
                number=number, time_ns=act.time_ns, tenant=act.tenant, peer=act.peer, action=act.action, subject=act.subject,
                before=act.before, after=act.after,
            )
            for number, act in self._journal.audit(request.count or _AUDIT_DEFAULT)
        ]  # fmt: skip
        return tenants_pb2.ListAuditResponse(lines=lines)

    async def list_quarantine(
        self, _request: tenants_pb2.ListQuarantineRequest, context: Any
    ) -> tenants_pb2.ListQuarantineResponse:
        """Programs that ended executors and are not run any more; to a tenant those that it ran, as it called them."""
        only = self._callers.visible_tenant(context)
        state = self._loop.core.state
        programs: list[tenants_pb2.QuarantinedProgram] = []
        for program, deaths in state.deaths.items():
            own = [death for death in deaths if may_see(only, TenantName(death.tenant))]
            if own and quarantine.is_held(state, program):
                shown = [tenants_pb2.ExecutorDeath(time_ns=each.time_ns, host=each.host, signal=each.signal) for each in deaths]
                name, tenant = own[-1].name, own[-1].tenant
                held = tenants_pb2.QuarantinedProgram(program=quarantine.short(program), name=name, tenant=tenant, deaths=shown)
                programs.append(held)
        return tenants_pb2.ListQuarantineResponse(programs=programs)

    async def allow_program(self, request: tenants_pb2.AllowProgramRequest, context: Any) -> tenants_pb2.AllowProgramResponse:
        """Forgets the deaths of a program."""
        by = self._callers.administrator(context)
        return self._once("allow", request.request_id, lambda: self._allow(by, request.program))

    def _allow(self, by: By, program: str) -> tenants_pb2.AllowProgramResponse:
        self._book.allow(by, self._loop.core.state, program)
        return tenants_pb2.AllowProgramResponse()

    async def set_policy(self, request: tenants_pb2.SetPolicyRequest, context: Any) -> tenants_pb2.SetPolicyResponse:
        """Another order of work."""
        by = self._callers.administrator(context)
        return self._once("policy", request.request_id, lambda: self._set_policy(by, request))

    def _set_policy(self, by: By, request: tenants_pb2.SetPolicyRequest) -> tenants_pb2.SetPolicyResponse:
        word = _word(tenants_pb2.Policy, request.policy, "POLICY_")
        if word not in {each.value for each in Policy}:
            raise bad("policy must be one of fifo, proportional_share, priority", word)
        policy = Policy(word)
        island = checked_words(request.island, "island")
        return tenants_pb2.SetPolicyResponse(islands=self._book.set_policy(by, self._loop.core.state, island, policy))


def settings_texts(message: tenants_pb2.TenantSettings) -> dict[str, str]:
    """The settings that a message has, as texts that are still to be checked."""
    texts: dict[str, str] = {}
    numbers = {
        "weight": "weight",
        "devices_max": "max_devices",
        "memory_bytes_max": "max_memory",
        "sessions_max": "max_sessions",
        "programs_max": "max_programs",
    }
    for field, name in numbers.items():
        if message.HasField(field):
            texts[name] = str(getattr(message, field))
    if message.priority:
        texts["priority"] = _word(tenants_pb2.Priority, message.priority, "PRIORITY_")
    if message.over:
        texts["over"] = _word(tenants_pb2.Over, message.over, "OVER_")
    if message.isolation:
        texts["isolation"] = _word(tenants_pb2.Isolation, message.isolation, "ISOLATION_")
    return texts


def _word(enum: Any, number: int, prefix: str) -> str:
    value = enum.DESCRIPTOR.values_by_number.get(number)
    return str(number) if value is None else str(value.name).removeprefix(prefix).lower()


def settings_message(declared: Declared) -> tenants_pb2.TenantSettings:
    """All that holds."""
    return tenants_pb2.TenantSettings(
        weight=declared.weight,
        priority=_PRIORITIES[declared.priority],
        devices_max=declared.devices_max,
        memory_bytes_max=declared.memory_bytes_max,
        sessions_max=declared.sessions_max,
        programs_max=declared.programs_max,
        over="OVER_WAIT" if declared.waits else "OVER_FAIL",
        isolation="ISOLATION_PROCESS" if declared.isolated else "ISOLATION_SHARED",
    )
