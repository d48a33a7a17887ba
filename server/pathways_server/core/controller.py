"""The core of the controller: one event in, effects out, no I/O and no clock.

`Core.step` is the single writer of all tables. What an event makes possible (a value is present, a program is loaded)
is worked off before the step ends; frees leave last. Anything that a client or a host can get wrong is answered here.
"""

from __future__ import annotations

from typing import assert_never

from . import (
    accounts,
    agreement,
    buffers,
    callbacks,
    cancel,
    cells,
    claims,
    copies,
    definitions,
    drains,
    endings,
    failed_inputs,
    fences,
    follow_on,
    fusion,
    leaks,
    leases,
    listening,
    migrations,
    policies,
    programs,
    progress,
    quarantine,
    quota_lines,
    quotas,
    reads,
    registry,
    rescues,
    reshard,
    resource_manager,
    run_requests,
    runs,
    scheduler,
    sessions,
    slices,
    spills,
    stuck,
    suspensions,
    tenants,
    traces,
    transfers,
    walks,
)
from .audience import Audience
from .config import CoreConfig
from .effects import Effect
from .events import (
    ArrayMade,
    ArrayRestored,
    ArraySpilled,
    BecameReady,
    CallbackCalled,
    CallbackReturned,
    CancelRequested,
    CompileRequested,
    CoordinatorStarted,
    CopyRequested,
    DeathsRestored,
    DefinitionRequested,
    DrainSet,
    EpochEntered,
    EpochLeft,
    EpochRefused,
    ErrorArrayMade,
    Event,
    ExecutableInspected,
    ExecutableLoaded,
    ExecuteRequested,
    ExecutorLost,
    FenceRequested,
    FetchRequested,
    FusionRequested,
    HoldingsReported,
    HostDetached,
    HostHeard,
    HostJoined,
    HostLost,
    HostProgressed,
    HostPulsed,
    HostResumed,
    InspectRequested,
    LeaksRequested,
    LinkEvent,
    MigrationRequested,
    NodeFailed,
    OpeningRequested,
    OrderBroken,
    PlanLoaded,
    PolicySet,
    PrepareRefused,
    ProgramAllowed,
    ProgramsRestored,
    RegistrationRequested,
    Released,
    ReshardRequested,
    ResumeRequested,
    RunRequested,
    SequenceMissed,
    SessionClosed,
    SessionDetached,
    SessionOpened,
    SessionResumed,
    ShardFetched,
    SliceReleased,
    SliceRequested,
    SuspendRequested,
    TenantRemoved,
    TenantSet,
    TimePassed,
    TraceCollected,
    TraceRequested,
    TransferLanded,
    UnregistrationRequested,
    ViewMade,
    ViewsDeleted,
    WaitRequested,
    WindowDue,
)
from .migration_records import HeldBack
from .read_records import Copy, Fetch, Wait
from .records import Definition, Execution, Inspect, Island, Session, Slice
from .run_records import Run
from .snapshot import Snapshot, take
from .state import State
from .tenant_records import Tenant
from .walk_records import Look, Walk

SessionEvent = (
    CompileRequested | ExecuteRequested | ArrayMade | ErrorArrayMade | ViewMade | CopyRequested | ViewsDeleted | Released
    | ReshardRequested | WaitRequested | FetchRequested | InspectRequested | CallbackReturned | FenceRequested
    | SuspendRequested | ResumeRequested
    | SliceRequested | SliceReleased | DefinitionRequested | RunRequested | RegistrationRequested | OpeningRequested
    | UnregistrationRequested | CancelRequested | FusionRequested
)  # fmt: skip
# What tools ask, what an administrator sets, and what is told once at the start.
ToolEvent = (
    TraceRequested | TraceCollected | LeaksRequested | HoldingsReported | ProgramsRestored | PolicySet | TenantSet
    | TenantRemoved | DeathsRestored | ProgramAllowed | MigrationRequested | DrainSet
)  # fmt: skip
OtherEvent = (
    SessionOpened | SessionClosed | HostJoined | HostLost | CoordinatorStarted | EpochEntered | EpochRefused | ExecutorLost
    | ExecutableLoaded | NodeFailed | PrepareRefused | TransferLanded | ShardFetched | BecameReady | ExecutableInspected
    | CallbackCalled | OrderBroken | SequenceMissed | WindowDue | ArraySpilled | ArrayRestored | PlanLoaded | HostPulsed
    | ToolEvent | LinkEvent | EpochLeft
)  # fmt: skip
_SESSION_EVENTS = (
    ExecuteRequested, RunRequested, Released, ViewMade, FetchRequested, WaitRequested, ArrayMade, CompileRequested,
    CopyRequested, ViewsDeleted,
    ErrorArrayMade, ReshardRequested, InspectRequested, CallbackReturned, FenceRequested, SliceRequested, SliceReleased,
    SuspendRequested, ResumeRequested,
    DefinitionRequested, RegistrationRequested, OpeningRequested, UnregistrationRequested, CancelRequested,
    FusionRequested,
)  # fmt: skip


class Core:
    """The decisions of the controller. Not thread-safe: one caller steps it."""

    def __init__(self, config: CoreConfig | None = None) -> None:
        self.state = State(config or CoreConfig())

    def step(self, now_ns: int, event: Event) -> list[Effect]:
        """Handles one event at `now_ns` (monotonic) and returns what has to be done, in order."""
        state = self.state
        state.now_ns = now_ns
        effects: list[Effect] = []
        state.effects = effects
        if isinstance(event, HostProgressed):  # most events are one
            progress.on_host_progressed(state, event)
        elif isinstance(event, _SESSION_EVENTS):
            session = state.sessions.get(event.session)
            if session is None or event.session in state.pending:
                state.ignore(event, "the session is not open")
                if isinstance(event, CompileRequested):
                    programs.not_taken(state, event)
            elif session.migration is None or not migrations.hold_back(state, session.migration, event):
                self._on_session_event(session, event)
        elif isinstance(event, TimePassed):
            self._on_time_passed()
        else:
            self._on_other_event(event)
        self._settle()
        while state.caught_up:
            self._catch_up(*state.caught_up.pop(0))
        return effects

    def _settle(self) -> None:
        state = self.state
        if state.woken or state.failing:
            self._work_off()
        if state.frees:
            state.flush_frees()
        if state.budgets:
            self._settle_memory()

    def _catch_up(self, session: Session, held_back: list[HeldBack]) -> None:
        """What a session asked for while its devices were moved, as if it came now."""
        for event in held_back:
            self._on_session_event(session, event)
            self._settle()

    def restore(self, state: State) -> None:
        """Goes on with the tables of an earlier life, by the settings that it had; before the first step."""
        self.state = state

    def snapshot(self, now_ns: int, audience: Audience = None) -> Snapshot:
        """Figures for `pathways status`, in words for a tenant or, with None, for an administrator."""
        return take(self.state, now_ns, audience)

    def _on_session_event(self, session: Session, event: SessionEvent) -> None:
        state = self.state
        match event:
            case ExecuteRequested():
                scheduler.on_execute_requested(state, event, session)
            case Released():
                buffers.on_released(state, event, session)
                definitions.on_released(state, event, session)
                programs.on_released(state, event, session)
            case ViewMade():
                buffers.on_view_made(state, event, session)
            case FetchRequested():
                reads.on_fetch_requested(state, event, session)
            case WaitRequested():
                reads.on_wait_requested(state, event, session)
            case ArrayMade():
                transfers.on_array_made(state, event, session)
            case CompileRequested():
                programs.on_compile_requested(state, event, session)
            case CopyRequested():
                copies.on_copy_requested(state, event, session)
            case ReshardRequested():
                reshard.on_reshard_requested(state, event, session)
            case ViewsDeleted():
                buffers.on_views_deleted(state, event, session)
            case ErrorArrayMade():
                buffers.on_error_array_made(state, event, session)
            case InspectRequested():
                programs.on_inspect_requested(state, event, session)
            case CallbackReturned():
                callbacks.on_callback_returned(state, event, session)
            case FenceRequested():
                fences.on_fence_requested(state, event, session)
            case SliceRequested():
                slices.on_slice_requested(state, event, session)
            case SuspendRequested():
                suspensions.on_suspend_requested(state, event, session)
            case ResumeRequested():
                suspensions.on_resume_requested(state, event, session)
            case SliceReleased():
                slices.on_slice_released(state, event, session)
            case RunRequested():
                run_requests.on_run_requested(state, event, session)
            case DefinitionRequested():
                definitions.on_definition_requested(state, event, session)
            case FusionRequested():
                fusion.on_fusion_requested(state, event, session)
            case RegistrationRequested():
                registry.on_registration_requested(state, event, session)
            case OpeningRequested():
                registry.on_opening_requested(state, event, session)
            case UnregistrationRequested():
                registry.on_unregistration_requested(state, event, session)
            case CancelRequested():
                cancel.on_cancel_requested(state, event, session)
            case _:
                assert_never(event)

    def _on_other_event(
        self,
        event: OtherEvent,
    ) -> None:
        state = self.state
        match event:
            case ShardFetched():
                reads.on_shard_fetched(state, event)
            case BecameReady():
                reads.on_became_ready(state, event)
            case TransferLanded():
                transfers.on_transfer_landed(state, event)
            case CallbackCalled():
                callbacks.on_callback_called(state, event)
            case ExecutableLoaded():
                programs.on_executable_loaded(state, event)
            case PlanLoaded():
                agreement.on_plan_loaded(state, event)
            case ExecutableInspected():
                programs.on_executable_inspected(state, event)
            case NodeFailed():
                progress.on_node_failed(state, event)
            case PrepareRefused():
                progress.on_prepare_refused(state, event)
            case OrderBroken():
                progress.on_order_broken(state, event)
            case WindowDue():
                progress.on_window_due(state, event)
            case SequenceMissed():
                progress.on_sequence_missed(state, event)
            case SessionOpened():
                sessions.on_session_opened(state, event)
            case SessionClosed():
                sessions.on_session_closed(state, event)
            case HostJoined():
                resource_manager.on_host_joined(state, event)
            case HostLost():
                resource_manager.on_host_lost(state, event)
            case CoordinatorStarted():
                resource_manager.on_coordinator_started(state, event)
            case EpochEntered():
                resource_manager.on_epoch_entered(state, event)
            case EpochRefused():
                resource_manager.on_epoch_refused(state, event)
            case ExecutorLost():
                resource_manager.on_executor_lost(state, event)
            case ArraySpilled():
                spills.on_array_spilled(state, event)
            case ArrayRestored():
                spills.on_array_restored(state, event)
            case EpochLeft():
                rescues.on_epoch_left(state, event)
            case HostPulsed():
                stuck.on_host_pulsed(state, event)
            case HostHeard():
                stuck.on_host_heard(state, event)
            case SessionDetached() | SessionResumed() | HostDetached() | HostResumed():
                leases.on_link_event(state, event)
            case _:
                self._on_tool_event(event)

    def _on_tool_event(self, event: ToolEvent) -> None:
        state = self.state
        match event:
            case TraceRequested():
                traces.on_trace_requested(state, event)
            case TraceCollected():
                traces.on_trace_collected(state, event)
            case LeaksRequested():
                leaks.on_leaks_requested(state, event)
            case HoldingsReported():
                leaks.on_holdings_reported(state, event)
            case ProgramsRestored():
                registry.on_programs_restored(state, event)
            case PolicySet():
                policies.on_policy_set(state, event)
            case TenantSet():
                tenants.on_tenant_set(state, event)
            case DeathsRestored():
                quarantine.on_deaths_restored(state, event)
            case ProgramAllowed():
                quarantine.on_program_allowed(state, event)
            case DrainSet():
                drains.on_drain_set(state, event)
            case MigrationRequested():
                migrations.on_migration_requested(state, event)
            case TenantRemoved():
                tenants.on_tenant_removed(state, event)
            case _:
                assert_never(event)

    def _on_time_passed(self) -> None:
        state = self.state
        listening.on_time_passed(state)
        leases.on_time_passed(state)
        quotas.integrate(state)
        rescues.expire(state)
        resource_manager.expire(state)
        endings.expire(state)
        stuck.expire(state)
        sessions.expire(state)
        slices.expire(state)
        migrations.expire(state)
        drains.expire(state)
        cells.expire(state)
        programs.expire(state)
        agreement.expire(state)
        scheduler.expire(state)
        follow_on.expire(state)
        transfers.expire(state)
        callbacks.expire(state)
        reads.expire(state)
        traces.expire(state)
        if state.budgets:
            claims.expire(state)
        quota_lines.expire(state)
        leaks.expire(state)

    def _settle_memory(self) -> None:
        """What has come free in this step goes to those who wait for it, which may free more."""
        state = self.state
        while state.leaving or state.relieved:
            accounts.on_frees_sent(state)
            claims.look(state)
            if state.woken or state.failing:
                self._work_off()
            if state.frees:
                state.flush_frees()

    def _work_off(self) -> None:
        """Looks at everything that this step has woken, in the order in which it began to wait."""
        state = self.state
        while state.woken or state.failing:
            if not state.woken:
                failed_inputs.look(state)
                continue
            woken = state.woken.popleft()
            match woken:
                case Execution():
                    scheduler.wake(state, woken)
                case Run():
                    runs.wake(state, woken)
                case Island():
                    progress.look_again(state, woken)
                case Definition():
                    definitions.try_define(state, woken)
                case Fetch():
                    reads.try_fetch(state, woken)
                case Wait():
                    reads.try_wait(state, woken)
                case Copy():
                    copies.try_copy(state, woken)
                case Look():
                    reads.try_look(state, woken)
                case Walk():
                    walks.wake(state, woken)
                case Inspect():
                    programs.try_inspect(state, woken)
                case Tenant():
                    quota_lines.look(state, woken)
                case Slice():
                    slices.finish_release(state, woken)
                case _:
                    assert_never(woken)
