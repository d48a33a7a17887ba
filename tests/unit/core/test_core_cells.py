"""Cells by hand: executors of one tenant on the hosts of an island, their turns, their memory, their end and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.failure import Reason
from pathways_common.model.ids import HostName, IslandName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, obstacles, why
from pathways_server.core.obstacles import WaitKind
from pathways_server.core.records import Buffer, Island
from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_records import Declared, TenantName
from pathways_server.core.transitions import BufferState, IslandState

from tests.unit.core.core_driver import Driver, gid, only, replies, sent, spec
from tests.unit.core.core_shares import MS

ADS = TenantName("ads")


def isolate(driver: Driver, tenant: str = "ads", isolated: bool = True, **declared: Any) -> list[out.Effect]:
    return driver.step(events.TenantSet(TenantName(tenant), Declared(isolated=isolated, **declared)))


def pair(sessions: int = 2, **config: Any) -> Driver:
    """Session 1 of the default tenant on island a, session 2 of ads in its cell; each has program 1."""
    config.setdefault("quantum_ns", 0)  # a turn is one grant
    driver = Driver(**config)
    isolate(driver)
    for number, tenant in ((1, "default"), (2, "ads"))[:sessions]:
        driver.open(number, tenant=tenant)
        driver.compile(1, session=number)
        driver.put(2, session=number)
    return driver


def island(driver: Driver, name: str) -> Island:
    return driver.core.state.islands[IslandName(name)]


def granted(effects: list[out.Effect]) -> list[str]:
    """The hosts that were told to launch something, each once."""
    return list(dict.fromkeys(host for host, _ in sent(effects, out.Prepare)))


def buffer(driver: Driver, number: int, session: int = 1) -> Buffer:
    return driver.core.state.sessions[SessionNumber(session)].buffers[gid(number, session)]


# ---- opening and closing ----------------------------------------------------------------------------------------------


def test_an_isolated_tenants_session_has_its_own_executors_and_sees_the_same_devices() -> None:
    driver = Driver()
    isolate(driver)
    shared = only(replies(driver.open(1), out.WelcomeSession))
    effects = driver.open(2, tenant="ads")
    assert [(host, command.tenant) for host, command in sent(effects, out.OpenCell)] == [("a0", "ads"), ("a1", "ads")]
    assert only(replies(effects, out.WelcomeSession)).devices == shared.devices
    assert [host for host, _ in sent(driver.compile(1, session=2), out.Load)] == ["a0+ads", "a1+ads"]
    assert driver.open(3, tenant="ads")[0] == driver.log[-2]  # the second one is opened at once, without another cell
    assert [island.name for island in driver.core.state.islands.values()] == ["a", "a+ads"]


def test_the_setting_is_for_new_sessions() -> None:
    driver = Driver()
    driver.open(1, tenant="ads")
    isolate(driver)
    assert [host for host, _ in sent(driver.compile(1, session=1), out.Load)] == ["a0", "a1"]
    driver.open(2, tenant="ads")
    isolate(driver, isolated=False)
    assert [host for host, _ in sent(driver.compile(1, session=2), out.Load)] == ["a0+ads", "a1+ads"]
    driver.open(3, tenant="ads")
    assert [host for host, _ in sent(driver.compile(1, session=3), out.Load)] == ["a0", "a1"]


def test_a_session_waits_until_its_cell_has_all_hosts_and_is_told_what_is_missing() -> None:
    driver = Driver(session_wait_ns=20 * 10**9)
    driver.answer_cells = False
    isolate(driver)
    assert not replies(driver.open(1, tenant="ads"), out.WelcomeSession)
    (told,) = driver.cell_joined("a0", "ads")
    assert not replies(driver.step(told), out.WelcomeSession)
    answer = why.of_session(driver.core.state, driver.now_ns, SessionNumber(1), None)
    assert "island a+ads waits for 1 more host of 2; there: a0+ads" in answer.sentences[1]
    assert sent(driver.pass_time(5), out.OpenCell) == [("a1", out.OpenCell("ads"))]  # who has not come is asked again
    refused = only(replies(driver.pass_time(15), out.RefuseSession))
    assert "island a+ads waits for 1 more host of 2" in refused.failure.message


def test_islands_are_named_as_always_and_a_cell_cannot_be_asked_for() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    isolate(driver)
    welcome = only(replies(driver.open(1, ("*",), tenant="ads"), out.WelcomeSession))
    assert [(device.island, device.host) for device in welcome.devices] == [("a", "a0"), ("b", "b0")]
    refused = only(replies(driver.open(2, ("a+ads",)), out.RefuseSession))
    assert "the cluster has a, b" in refused.failure.message
    assert only(replies(driver.open(3), out.WelcomeSession)).devices[0].island == "a"


def test_the_least_loaded_island_counts_sessions_of_all_cells() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    isolate(driver)
    driver.open(1, tenant="ads")  # a
    assert only(replies(driver.open(2), out.WelcomeSession)).devices[0].island == "b"
    assert only(replies(driver.open(3, ("b",)), out.WelcomeSession)).devices[0].island == "b"
    assert only(replies(driver.open(4, tenant="ads"), out.WelcomeSession)).devices[0].island == "a"


def test_a_cell_is_closed_when_nobody_has_needed_it_for_a_while_and_opened_anew() -> None:
    driver = pair(cell_unused_ns=30 * 10**9)
    driver.close(2)
    driver.pass_time(1)
    assert not sent(driver.pass_time(29), out.CloseCell)
    closed = driver.pass_time(1)
    assert sent(closed, out.CloseCell) == [("a0", out.CloseCell("ads")), ("a1", out.CloseCell("ads"))]
    assert list(driver.core.state.islands) == ["a"]
    assert only(replies(driver.open(3, tenant="ads"), out.WelcomeSession))
    assert driver.epoch("a+ads") == 2  # never one that an earlier life of the cell had


def test_a_session_that_comes_while_its_cell_closes_gets_a_new_one() -> None:
    driver = pair(cell_unused_ns=10**9)
    driver.close(2)
    driver.pass_time(1)
    cell = island(driver, "a+ads")
    hosts = list(cell.hosts.values())
    driver.core.step(driver.now_ns + 10**9, events.TimePassed())  # closed, and its hosts have not left yet
    assert cell.closing
    assert not replies(driver.open(3, tenant="ads"), out.WelcomeSession)
    effects = [driver.step(events.HostLost(host.name, host.incarnation, "closed")) for host in hosts]
    assert only(replies(effects[-1], out.WelcomeSession))
    assert island(driver, "a+ads") is not cell


def test_a_host_of_a_cell_that_nobody_needs_is_sent_away() -> None:
    driver = Driver()
    effects = driver.step(events.HostJoined(HostName("a0+ads"), IslandName("a+ads"), 9, 1, "a0:2", 1, 0))
    assert "nobody needs" in only([command for _, command in sent(effects, out.Shutdown)]).reason
    assert "a0+ads" not in driver.core.state.hosts


def test_a_host_that_comes_back_opens_the_cells_that_are_there() -> None:
    driver = pair()
    driver.lose("a1+ads")
    effects = driver.lose("a1") + driver.join("a1", "a")
    assert ("a1", out.OpenCell("ads")) in sent(effects, out.OpenCell)
    assert island(driver, "a+ads").state is IslandState.ACTIVE
    assert island(driver, "a+ads").epoch == 2


def test_ranks_in_a_cell_are_those_of_the_island() -> None:
    driver = Driver({"a": ["a", "a1", "a10", "a2"]})
    isolate(driver)
    shared = only(replies(driver.open(1), out.WelcomeSession))
    assert only(replies(driver.open(2, tenant="ads"), out.WelcomeSession)).devices == shared.devices
    assert [host.name for host in island(driver, "a+ads").members] == ["a+ads", "a1+ads", "a2+ads", "a10+ads"]


def test_a_cell_has_the_machines_that_its_island_computes_on() -> None:
    driver = Driver({"a": ["a0", "a1", "a2"]}, island_hosts={"a": 2}, join=False)
    driver.answer_cells = False
    isolate(driver)
    for host in ("a0", "a1", "a2"):
        driver.join(host, "a")
    driver.open(1, tenant="ads")
    joined = [driver.cell_joined(host, "ads") for host in ("a0", "a2", "a1")]
    effects = [effect for (event,) in joined for effect in driver.step(event)]
    assert only(replies(effects, out.WelcomeSession))
    assert [host.name for host in island(driver, "a+ads").members] == ["a0+ads", "a1+ads"]


def test_an_unused_cell_grows_with_its_island() -> None:
    driver = Driver({"a": ["a0"]}, island_hosts={})  # whoever is there
    isolate(driver)
    assert len(only(replies(driver.open(1, tenant="ads"), out.WelcomeSession)).devices) == 1
    driver.close(1)
    driver.join("a1", "a")
    assert len(only(replies(driver.open(2, tenant="ads"), out.WelcomeSession)).devices) == 2
    driver.join("a2", "a")
    assert len(island(driver, "a").members) == 3
    assert len(island(driver, "a+ads").members) == 2  # what its session was shown stays


# ---- the blast radius -------------------------------------------------------------------------------------------------


def test_a_dead_executor_of_a_cell_takes_nothing_of_others_with_it() -> None:
    driver = pair()
    driver.execute(1, (2,), 10, session=1)
    before = driver.epoch()
    effects = driver.kill_executor("a1+ads")
    assert driver.epoch() == before
    assert island(driver, "a").state is IslandState.ACTIVE
    assert driver.epoch("a+ads") == 2
    assert {host for host, _ in sent(effects, out.EpochEnd)} == {"a0+ads", "a1+ads"}
    assert buffer(driver, 2, session=1).state is BufferState.PRESENT
    lost = buffer(driver, 2, session=2)
    assert lost.failure is not None
    assert lost.failure.reason is Reason.BUFFER_LOST
    assert "host a1+ads of island a+ads was lost in epoch 1" in lost.failure.message
    assert [host for host, _ in sent(driver.execute(1, (2,), 11, session=1), out.Prepare)] == ["a0", "a1"]


def test_a_dead_executor_of_the_island_takes_nothing_of_a_cell_with_it() -> None:
    driver = pair()
    driver.execute(1, (2,), 10, session=2)
    effects = driver.kill_executor("a0")
    assert {host for host, _ in sent(effects, out.EpochEnd)} == {"a0", "a1"}
    assert driver.epoch("a+ads") == 1
    assert buffer(driver, 10, session=2).state is BufferState.PRESENT
    assert only(replies(driver.open(3, tenant="ads"), out.WelcomeSession))


def test_a_cell_loads_no_image_that_others_made() -> None:
    driver = pair()
    keys = list(dict.fromkeys(command.image_key for _, command in sent(driver.log, out.Load)))
    assert keys == ["p/0x1.1x1", "p/0x1.1x1/ads"]
    assert not sent(driver.log, out.OfferImage)


# ---- turns ------------------------------------------------------------------------------------------------------------


def test_a_cell_waits_until_the_island_has_nothing_in_flight() -> None:
    driver = pair()
    assert granted(driver.execute(1, (2,), 10, session=1)) == ["a0", "a1"]
    assert granted(driver.execute(1, (2,), 10, session=2)) == []
    assert granted(driver.finish("a0", 1)) == []
    assert granted(driver.execute(1, (2,), 11, session=1)) == []  # behind the cell, which is in line
    assert granted(driver.finish("a1", 1)) == ["a0+ads", "a1+ads"]
    driver.finish("a0+ads", 1, "a+ads")
    assert granted(driver.finish("a1+ads", 1, "a+ads")) == ["a0", "a1"]


def test_why_says_who_computes_on_the_devices() -> None:
    driver = pair()
    driver.execute(1, (2,), 10, session=1)
    driver.execute(1, (2,), 10, session=2)
    answer = why.of_work(driver.core.state, driver.now_ns, gid(5010, 2), None)
    (reason,) = answer.reasons
    assert reason.kind is WaitKind.TURN
    assert reason.what == "the turn of island a+ads on devices that other executors of island a compute on"
    assert reason.holder == "session 1 (1 in flight)"
    assert (
        obstacles.estimate_ns(driver.core.state, driver.core.state.sessions[SessionNumber(2)].lanes[IslandName("a+ads")].queue[0])
        is None
    )


def test_what_ends_with_its_epoch_gives_up_its_turn() -> None:
    driver = pair()
    driver.execute(1, (2,), 10, session=1)
    driver.execute(1, (2,), 10, session=2)
    assert granted(driver.kill_executor("a0")) == ["a0+ads", "a1+ads"]


@pytest.mark.parametrize(
    ("policy", "shared_ms", "isolated_ms"),
    [(Policy.PROPORTIONAL_SHARE, 1, 1), (Policy.PRIORITY, 1, 10), (Policy.PROPORTIONAL_SHARE, 10, 1)],
)
def test_weights_hold_between_a_cell_and_the_island(policy: Policy, shared_ms: int, isolated_ms: int) -> None:
    bench = Turns(policy, (shared_ms * MS, isolated_ms * MS))
    bench.run(100)  # what the first one was granted while it was alone
    before = list(bench.given_ns)
    bench.changes = bench.gangs = 0
    bench.run(800)
    shared, isolated = (given - had for given, had in zip(bench.given_ns, before, strict=True))
    assert isolated / (shared + isolated) == pytest.approx(0.75, abs=0.03)
    if shared_ms == isolated_ms:
        assert bench.changes < bench.gangs / 2 + 2  # a quantum of 2 ms is two gangs: nobody changes after each of them


class Turns:
    """Two tenants of weights 1 and 3 that always have eight gangs in line, the second one in its cell."""

    def __init__(self, policy: Policy, durations_ns: tuple[int, int]) -> None:
        self.driver = pair(guess_ns=1 * MS, quantum_ns=2 * MS, island_policies={"a": policy})
        self.driver.core.state.tenants[ADS].declared = Declared(isolated=True, weight=3)
        for session in (1, 2):  # a program of the tenant's own, whose length is learned
            self.driver.compile(3, program=f"of session {session}", session=session)
        self.durations_ns = durations_ns
        self.given_ns = [0, 0]
        self.asked, self.ended, self.busy_ns = [0, 0], [0, 0], [0, 0]
        self.changes = self.gangs = 0

    def refill(self) -> None:
        for index in (0, 1):
            while self.asked[index] - self.ended[index] < 8:
                self.asked[index] += 1
                number = 10 + 2 * self.asked[index]
                self.driver.execute(3, (2,), number, session=index + 1, execution=number + 1)
                self.driver.release(number, session=index + 1)

    def run(self, span_ms: int) -> None:
        last, end_ns = -1, self.driver.now_ns + span_ms * MS
        while self.driver.now_ns < end_ns:
            self.refill()
            (at,) = [index for index, name in enumerate(("a", "a+ads")) if island(self.driver, name).inflight]
            name, duration_ns = ("a", "a+ads")[at], self.durations_ns[at]
            self.gangs += 1
            self.changes += at != last
            last = at
            self.driver.now_ns += duration_ns
            self.given_ns[at] += duration_ns
            self.busy_ns[at] += duration_ns
            self.ended[at] += 1
            through = Sequence(self.ended[at])
            for host in island(self.driver, name).members:
                told = events.HostProgressed(host.name, self.driver.epoch(name), through, through, self.busy_ns[at])
                self.driver.step(told)


# ---- memory -----------------------------------------------------------------------------------------------------------


def big(driver: Driver, number: int, size: int, session: int) -> list[out.Effect]:
    driver.now_ns += 1000
    piece = events.Piece((0, 1), size, bytes(size), 0)
    return driver.step(events.ArrayMade(SessionNumber(session), gid(number, session), spec(0, 1, elements=size // 4), (piece,)))


def test_what_a_cell_holds_the_island_lacks() -> None:
    driver = pair(memory=64, spill=False, memory_stuck_ns=10**12)
    assert sent(big(driver, 20, 32, session=2), out.PlaceArray)  # 8 of each are there
    assert not sent(big(driver, 20, 24, session=1), out.PlaceArray)
    assert [host for host, _ in sent(driver.release(20, session=2), out.PlaceArray)] == ["a0", "a1"]


def test_idle_arrays_of_a_cell_are_spilled_for_the_island() -> None:
    driver = pair(memory=64)
    for session in (1, 2):
        driver.release(2, session=session)
    big(driver, 20, 32, session=2)
    effects = big(driver, 20, 40, session=1)
    spilled = sent(effects, out.SpillArray)
    assert [host for host, _ in spilled] == ["a0+ads", "a1+ads"]
    for host, command in spilled:
        effects = driver.step(events.ArraySpilled(HostName(host), command.buffer_id, command.spill_number, 32, None))
    assert [host for host, _ in sent(effects, out.PlaceArray)] == ["a0", "a1"]


def test_waiting_in_a_cell_for_what_the_island_holds_ends_with_the_holder_named() -> None:
    driver = pair(memory=64, spill=False, memory_stuck_ns=10**9)
    big(driver, 20, 40, session=1)
    big(driver, 20, 24, session=2)
    for _ in range(8):
        driver.pass_time(1)
    failed = buffer(driver, 20, session=2).failure
    assert failed is not None
    assert failed.reason is Reason.RESOURCE_EXHAUSTED
    assert "held by tenant ads session 2 (8 bytes), another tenant (48 bytes)" in failed.message


def test_an_epoch_that_ends_gives_its_memory_to_the_others() -> None:
    driver = pair(memory=64, spill=False, memory_stuck_ns=10**12)
    big(driver, 20, 40, session=2)
    assert not sent(big(driver, 20, 24, session=1), out.PlaceArray)
    assert [host for host, _ in sent(driver.kill_executor("a1+ads"), out.PlaceArray)] == ["a0", "a1"]


# ---- slices -----------------------------------------------------------------------------------------------------------


def test_slices_of_an_isolated_session_lie_in_its_cells_and_others_open_when_needed() -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]}, pool_slices=3)
    isolate(driver)
    driver.open(1, ("a",), tenant="ads")
    added = only(replies(driver.add_slice(1, 2), out.SliceAdded))
    assert (added.island, added.hosts) == ("a", ("a0", "a1"))
    effects = driver.add_slice(2, 2, island="b", wait=True)
    assert [host for host, _ in sent(effects, out.OpenCell)] == ["b0", "b1"]
    added = only(replies(effects, out.SliceAdded))
    assert (added.island, added.hosts) == ("b", ("b0", "b1"))
    devices = added.devices
    assert [host for host, _ in sent(driver.compile(1, devices), out.Load)] == ["b0+ads", "b1+ads"]


def test_an_exclusive_slice_keeps_slices_of_all_cells_off_its_devices() -> None:
    driver = Driver(pool_slices=3)
    isolate(driver)
    driver.open(1)
    driver.open(2, tenant="ads")
    driver.add_slice(1, 2, session=1, exclusive=True)
    refused = only(replies(driver.add_slice(1, 1, session=2), out.SliceAdded))
    assert refused.failure is not None
    assert "held exclusively by another tenant" in refused.failure.message


def test_memory_of_a_cell_is_given_to_others_when_its_executor_has_left() -> None:
    driver = pair(memory=64, spill=False, memory_stuck_ns=10**12)

    def put(number: int, session: int) -> list[tuple[str, out.PlaceArray]]:
        piece = events.Piece((0,), 40, bytes(40), 0)
        made = events.ArrayMade(SessionNumber(session), gid(number, session), spec(0, elements=10), (piece,))
        return sent(driver.step(made), out.PlaceArray)

    assert put(20, 2)
    assert not put(20, 1)
    driver.answer_ends = False
    effects = driver.kill_executor("a1+ads")
    assert [host for host, command in sent(effects, out.EpochEnd) if command.keep] == ["a0+ads"]
    assert not sent(effects, out.PlaceArray)
    assert [host for host, _ in sent(driver.step(driver.left("a0+ads", 1)), out.PlaceArray)] == ["a0"]
