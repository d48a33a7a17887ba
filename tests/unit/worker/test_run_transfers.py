"""What a daemon begins of a run, in which order and how much of it at once; and how transfers of runs end."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName, IslandName
from pathways_worker.core import run_transfers, transfers
from pathways_worker.core.plans import HostPlan, Pull, Send
from pathways_worker.core.run_transfers import EndTransfers, ExpectFetch, RunTransfers, WantPull

KEY = b"k" * 32
FIRST = (1 << 63) + (7 << 24)
NODE_FAILED = Failure(Reason.USER_ERROR, "node 2 failed")


def ticket(text: str) -> str:
    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()[:32]


def host_plan(sends: tuple[Send, ...] = (), pulls: tuple[Pull, ...] = (), plan_id: int = 3) -> HostPlan:
    return HostPlan(plan_id, "p", HostName("a0"), IslandName("a"), Epoch(1), 100, 1, 8, (7,), (), sends, pulls, ())


def loaded(*plans: HostPlan) -> RunTransfers:
    core = RunTransfers()
    for plan in plans:
        core.loaded(plan)
    return core


def begin(core: RunTransfers, end_step: int, execution: int = 1, number: int = 7, plan_id: int = 3) -> list[object]:
    return list(core.begun(execution, plan_id, number, KEY, 50, end_step, received_ns=1000 + execution))


def pulls_at(*steps: int) -> tuple[Pull, ...]:
    return tuple(Pull(step, count, f"pull {count}", "host:1", 16) for count, step in enumerate(steps))


def test_a_grant_begins_the_sends_and_pulls_of_its_steps_and_no_others() -> None:
    sends = (Send(2, 0, "2:0:1::"), Send(5, 1, "5:0:1::"))
    core = loaded(host_plan(sends, (Pull(4, 0, "4:1:0:0:8", "host:1", 32),)))
    assert begin(core, 4) == [ExpectFetch(FIRST, ticket("2:0:1::"), 50)]
    assert core.granted(1, 5) == [WantPull(FIRST, "host:1", ticket("4:1:0:0:8"), 32, 50)]
    assert core.granted(1, 6) == [ExpectFetch(FIRST + 1, ticket("5:0:1::"), 50)]
    assert core.open_count == 1
    assert core.pull_ended(FIRST) == []
    assert core.open_count == 0


def test_a_repeated_grant_or_run_begins_nothing_again() -> None:
    core = loaded(host_plan((Send(0, 0, "s"),), pulls_at(1)))
    assert len(begin(core, 2)) == 2
    assert begin(core, 2) == []
    assert core.granted(1, 2) == []
    core.pull_ended(FIRST)
    assert begin(core, 2) == []
    assert core.pull_ended(FIRST) == []


def test_a_run_has_a_bounded_number_of_pulls_under_way_in_the_order_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_transfers, "PULLS_MAX", 2)
    core = loaded(host_plan(pulls=pulls_at(0, 1, 1, 9)))
    started = begin(core, 5)
    assert [pull.transfer_id - FIRST for pull in started] == [0, 1]
    assert [pull.transfer_id - FIRST for pull in core.pull_ended(FIRST + 1)] == [2]
    assert core.pull_ended(FIRST + 1) == [], "it ended already"
    assert core.pull_ended(FIRST + 2) == [], "step 9 is not granted"
    assert [pull.transfer_id - FIRST for pull in core.granted(1, 10)] == [3]


def test_two_runs_of_a_plan_do_not_share_numbers_or_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_transfers, "PULLS_MAX", 1)
    core = loaded(host_plan(pulls=pulls_at(0, 0)))
    first, second = begin(core, 1), begin(core, 1, execution=2, number=8)
    assert [pull.transfer_id for pull in first + second] == [FIRST, FIRST + (1 << 24)]


def test_an_end_names_what_waits_begun_or_not_and_what_others_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_transfers, "PULLS_MAX", 2)
    core = loaded(host_plan((Send(0, 0, "s"), Send(9, 1, "t")), pulls_at(0, 1, 2, 9)))
    begin(core, 5)
    core.pull_ended(FIRST)
    core.pull_ended(FIRST + 1)
    core.granted(1, 3)
    assert core.ended(1) == EndTransfers((FIRST + 2,), (FIRST,))
    assert core.granted(1, 100) == []
    assert core.pull_ended(FIRST + 2) == []
    assert core.open_count == 0
    assert core.ended(99) == EndTransfers((), ())


def test_of_pulls_that_had_no_room_the_end_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_transfers, "PULLS_MAX", 1)
    core = loaded(host_plan(pulls=pulls_at(0, 1, 9)))
    begin(core, 5)
    assert core.ended(1) == EndTransfers((FIRST, FIRST + 1), ())


def test_plans_and_runs_go_with_their_executor() -> None:
    core = loaded(host_plan(pulls=pulls_at(0)), host_plan(plan_id=4))
    begin(core, 1)
    core.unloaded([4, 99])
    assert (core.plan_count, core.open_count) == (1, 1)
    core.cleared()
    assert (core.plan_count, core.open_count, core.received_ns(1)) == (0, 0, 0)
    assert begin(core, 1, execution=2) == []
    assert core.pull_ended(FIRST) == []


def test_a_run_that_has_begun_goes_on_when_its_plan_is_unloaded() -> None:
    core = loaded(host_plan(pulls=pulls_at(0, 5)))
    begin(core, 1)
    core.unloaded([3])
    assert len(core.granted(1, 6)) == 1


def test_the_arrival_of_the_last_256_runs_is_known() -> None:
    core = RunTransfers()
    for execution in range(1, 301):
        begin(core, 1, execution=execution)
    assert core.received_ns(44) == 0
    assert [core.received_ns(execution) for execution in range(45, 301)] == list(range(1045, 1301))


# ---- transfers of runs ------------------------------------------------------------------------------------------------


def test_the_failure_of_a_runs_pull_goes_to_the_executor_and_of_any_other_to_the_controller() -> None:
    core = transfers.Transfers("a0")
    for number in (5, FIRST):
        core.step(0, transfers.ShardPullWanted(number, 100))
    assert core.step(0, transfers.ShardPulled(5, NODE_FAILED)) == [transfers.ReportFailed(5, NODE_FAILED)]
    assert core.step(0, transfers.ShardPulled(FIRST, NODE_FAILED)) == [transfers.DeliverFailure(FIRST, NODE_FAILED)]
    core.step(0, transfers.ShardPullWanted(FIRST + 1, 100))
    stopped, failed = core.step(100, transfers.TimePassed())
    assert stopped == transfers.StopPull(FIRST + 1)
    assert isinstance(failed, transfers.DeliverFailure)
    assert failed.failure.reason is Reason.TIMED_OUT


def test_what_is_late_names_the_host_in_the_words_of_the_controller() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.UploadExpected(7, "ticket", 4, 100))
    core.step(0, transfers.ShardPullWanted(8, 100))
    failures = [effect.failure for effect in core.step(100, transfers.TimePassed()) if isinstance(effect, transfers.ReportFailed)]
    said = "the bytes of {} did not reach host a0 in time; make the array again"
    assert [failure.message for failure in failures] == [said.format("an upload"), said.format("a copy")]
    assert {failure.host for failure in failures} == {"a0"}


def test_the_end_of_a_run_ends_its_pulls_and_whoever_waits_for_its_sends() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.ShardPullWanted(FIRST, 100))
    for count, name in enumerate("abc"):
        core.step(0, transfers.FetchExpected(FIRST + count, name, 100))
    core.step(0, transfers.PullBegan(1, "a"))
    core.step(0, transfers.FetchAnswered(FIRST + 1, None))
    # The second pull had no room yet, the fetch of "d" was answered long ago.
    effects = core.step(0, transfers.RunEnded((FIRST, FIRST + 1), tuple(FIRST + count for count in range(4)), NODE_FAILED))
    assert effects == [
        transfers.StopPull(FIRST),
        transfers.DeliverFailure(FIRST, NODE_FAILED),
        transfers.DeliverFailure(FIRST + 1, NODE_FAILED),
        transfers.Refuse(1, NODE_FAILED),
        transfers.Forget(FIRST + 1),
    ]
    assert core.open_count == 0
    assert core.step(0, transfers.PullBegan(2, "c")) == [transfers.Refuse(2, NODE_FAILED)], "a late caller hears why"
    assert core.step(0, transfers.FetchAnswered(FIRST, None)) == [transfers.Forget(FIRST)]


def test_a_caller_that_comes_after_the_executors_death_hears_of_it() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(FIRST, "t", 100))
    gone = Failure(Reason.BUFFER_LOST, "gone")
    core.step(0, transfers.ExecutorChanged(gone))
    assert core.step(0, transfers.PullBegan(1, "t")) == [transfers.Refuse(1, gone)]


def test_when_the_host_has_left_nobody_waits_for_what_its_controller_would_have_said() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.PullBegan(1, "t"))
    core.step(0, transfers.PushBegan(2, "u"))
    core.step(0, transfers.FetchExpected(FIRST, "v", 100))
    core.step(0, transfers.PullBegan(3, "v"))
    left = Failure(Reason.BUFFER_LOST, "left the cluster")
    assert core.step(0, transfers.HostLeft(left)) == [transfers.Refuse(3, left), transfers.Refuse(1, left), transfers.Drop(2)]
    assert core.open_count == 0


def test_an_early_caller_that_leaves_makes_room_for_its_ticket() -> None:
    core = transfers.Transfers("a0")
    for call in (1, 2, 3):
        core.step(0, transfers.PullBegan(call, "t"))
    core.step(0, transfers.CallEnded(1))
    core.step(0, transfers.FetchExpected(FIRST, "t", 100))
    assert core.step(0, transfers.FetchAnswered(FIRST, None)) == [transfers.Serve(2, FIRST)]
    core.step(0, transfers.CallEnded(3))
    assert core.step(0, transfers.CallEnded(2)) == [transfers.Forget(FIRST)]
    assert core.open_count == 0
