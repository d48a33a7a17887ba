"""Stuck means skew: who keeps the others waiting is named within the deadline and a second, and who is only slow never is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from pathways_common.model.failure import Reason
from pathways_common.model.ids import Epoch, FetchId, HostName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, facts, only, replies, sent
from tests.unit.core.core_runs import A1, A, buffer, chain, driver_of, put, run

SECOND_NS = 10**9
LIMIT_S = 10


@dataclass
class Hosts:
    """Answers probes as daemons do. `entered`: the last gang that an executor began; `stopped_ns`: when it last showed life."""

    driver: Driver
    entered: dict[str, int] = field(default_factory=dict)
    entered_ns: dict[str, int] = field(default_factory=dict)
    stopped_ns: dict[str, int] = field(default_factory=dict)
    silent: dict[str, None] = field(default_factory=dict)
    busy: dict[str, None] = field(default_factory=dict)
    excused: dict[str, None] = field(default_factory=dict)
    cpu_share: dict[str, float] = field(default_factory=dict)
    probes: int = 0

    def enter(self, host: str, sequence: int) -> None:
        self.entered[host], self.entered_ns[host] = sequence, self.driver.now_ns

    def pulse(self, host: HostName, probe: out.Probe) -> events.HostPulsed:
        record = self.driver.core.state.hosts[host]
        return events.HostPulsed(
            host, probe.number, record.island.epoch, Sequence(self.entered.get(host, 0)),
            self.driver.now_ns - self.entered_ns.get(host, 0), record.finished_through,
            self.driver.now_ns - self.stopped_ns.get(host, self.driver.now_ns), host not in self.busy, host in self.excused,
            int(self.driver.now_ns * self.cpu_share.get(host, 0)),
        )  # fmt: skip

    def wait(self, seconds: float, tick_s: float = 0.1) -> list[out.Effect]:
        """Until so much time is over, a host was named or a gang ended; returns the effects of the last tick."""
        end_ns = self.driver.now_ns + int(seconds * SECOND_NS)
        effects: list[out.Effect] = []
        while self.driver.now_ns < end_ns:
            effects = self.driver.pass_time(tick_s)
            for effect in effects:
                if isinstance(effect, out.SendToHost) and isinstance(effect.command, out.Probe):
                    assert effect.urgent
                    self.probes += 1
                    if effect.host not in self.silent:
                        self.driver.step(self.pulse(effect.host, effect.command))
            if named(effects) or ended(effects):
                break
        return effects


def named(effects: list[out.Effect]) -> list[tuple[str, str]]:
    """Hosts that were found to be stuck, each with the reason."""
    logs = [dict(effect.fields) for effect in effects if isinstance(effect, out.Log) and effect.phrase == "host stuck"]
    return [(log["host"], log["reason"]) for log in logs]


def ended(effects: list[out.Effect]) -> list[str]:
    """Why gangs were ended that took too long."""
    return [dict(each.fields)["reason"] for each in effects if isinstance(each, out.Log) and each.phrase == "gang ended"]


def waiting(**options: object) -> tuple[Driver, Hosts]:
    """A gang on both hosts is granted as sequence 1 and nobody has begun it; its value is being read."""
    driver = Driver(**options)  # type: ignore[arg-type]
    driver.facts["p"] = facts(outputs=1)
    driver.open(1, ("*",))
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 20)
    driver.fetch(20)
    return driver, Hosts(driver)


def failure_of(effects: list[out.Effect]) -> str:
    failed = only(replies(effects, out.FetchFailed)).failure
    assert failed.reason is Reason.SLICE_LOST
    return failed.message


def within(driver: Driver, since_ns: int) -> bool:
    """The deadline is over, and not by more than a second."""
    return LIMIT_S * SECOND_NS <= driver.now_ns - since_ns <= (LIMIT_S + 1) * SECOND_NS


def test_a_member_that_does_not_begin_a_gang_is_named_with_it_and_with_who_waits() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    effects = hosts.wait(30)
    assert within(driver, 0)
    (host, why) = only(named(effects))
    assert host == "a1"
    assert why.startswith("it did not start program 1 of test, which host a0 entered 10.")
    assert failure_of(effects) == f"host a1 of island a was lost in epoch 1: {why}"
    # Its daemon kills what is stuck, and the island forms again at once.
    assert ("a1", out.EpochEnd(Epoch(1))) in sent(effects, out.EpochEnd)
    assert [host for host, _ in sent(effects, out.EpochBegin)] == ["a0", "a1"]
    lost = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert (lost.reason, lost.host) == (Reason.BUFFER_LOST, "a1")


def test_the_node_of_a_program_is_named() -> None:
    driver = driver_of()
    chain(driver, A, A1, A)
    put(driver, 10, A)
    run(driver, (10,), 20)
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    hosts = Hosts(driver, {"a1": 1})
    began_ns = driver.now_ns
    hosts.enter("a0", 3)  # it is not in node 2
    effects = hosts.wait(30)
    assert within(driver, began_ns)
    why = "it did not start node 2 of 3 (step 2, called at train.py:2) of program train, which it could have started 10."
    assert only(named(effects))[1].startswith(why)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.startswith("node 2 of 3 (step 2, called at train.py:2) of program train failed: host a1 of island a")


def test_who_has_finished_what_another_has_not_begun_is_told() -> None:
    driver, hosts = waiting()
    driver.finish("a0", 1)
    effects = hosts.wait(30)
    assert only(named(effects)) == ("a1", "it did not start program 1 of test, which host a0 has finished")


def test_an_executor_that_shows_no_life_is_named_also_inside_a_launch() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    hosts.wait(3)
    hosts.stopped_ns["a1"] = stopped_ns = driver.now_ns
    effects = hosts.wait(30)
    assert within(driver, stopped_ns)
    (host, why) = only(named(effects))
    assert host == "a1"
    assert why.startswith("its executor has not answered for 10.")
    assert why.endswith("s; it is in program 1 of test")


def test_a_daemon_that_does_not_answer_is_dropped_and_has_to_join_again() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.silent["a1"] = None
    effects = hosts.wait(30)
    assert within(driver, 0)
    (host, why) = only(named(effects))
    assert host == "a1"
    assert why.startswith("nothing has been heard of it for 10.")
    assert "it did not start program 1 of test, which host a0 entered 10." in why
    assert out.DropHost(HostName("a1")) in effects
    assert "it did not start" in failure_of(effects)
    assert not sent(effects, out.EpochBegin), "the island waits for the host"
    # The end of its connection is told late, and what it says then is of an incarnation that is gone.
    incarnation = driver.incarnation
    driver.step(events.HostLost(HostName("a1"), incarnation, "ended by the controller"))
    driver.finish("a1", 1)
    assert [host for host, _ in sent(driver.join("a1", "a"), out.EpochBegin)] == ["a0", "a1"]


@pytest.mark.parametrize("sign", ["an answer", "a sign of the link"])
def test_what_is_heard_right_behind_a_pause_of_the_controller_counts_from_there(sign: str) -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.busy["a1"] = hosts.excused["a1"] = None
    hosts.wait(5)
    asked: list[out.Probe] = []
    seconds = 1 if sign == "an answer" else 12  # for which a1 does not answer; meanwhile its link shows signs
    for _ in range(10 * seconds):
        for host, probe in sent(driver.pass_time(0.1), out.Probe):
            if host == "a1":
                asked.append(probe)
            else:
                driver.step(hosts.pulse(HostName(host), probe))
        driver.step(events.HostHeard(HostName("a1"), driver.core.state.hosts[HostName("a1")].incarnation))
    driver.now_ns += 100 * SECOND_NS
    if sign == "an answer":
        driver.step(hosts.pulse(HostName("a1"), asked[-1]))
    else:
        driver.step(events.HostHeard(HostName("a1"), driver.core.state.hosts[HostName("a1")].incarnation))
    hosts.silent["a1"] = None
    heard_ns = driver.now_ns
    effects = hosts.wait(30)
    assert only(named(effects))[1].startswith("nothing has been heard of it for ")
    assert within(driver, heard_ns)


def test_of_a_daemon_that_does_not_answer_nothing_is_wanted_once_all_is_begun() -> None:
    _, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    hosts.wait(4)
    hosts.silent["a1"] = None
    assert named(hosts.wait(60)) == []


@pytest.mark.parametrize("excuse", ["inside", "waits or compiles", "no work"])
def test_who_is_only_slow_is_never_named(excuse: str) -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    if excuse == "inside":
        hosts.enter("a1", 1)
    elif excuse == "waits or compiles":
        hosts.excused["a1"] = None
        hosts.busy["a1"] = None
    else:
        driver.finish("a0", 1)
        driver.finish("a1", 1)
        (read,) = driver.core.state.readers
        driver.step(events.ShardFetched(HostName("a0"), FetchId(read), b"12345678", None))
        hosts.stopped_ns["a1"] = 0
    assert named(hosts.wait(300)) == []
    assert bool(hosts.probes) == (excuse != "no work")


def test_a_host_that_ends_a_gang_now_and_then_is_slow_and_not_asked_much() -> None:
    driver, hosts = waiting()
    for result in range(21, 41):
        driver.execute(1, (10,), result)
    for sequence in range(1, 21):
        driver.finish("a0", sequence)
        assert named(hosts.wait(9)) == []
        driver.finish("a1", sequence)
    assert hosts.probes < 20 * 30


def test_an_executor_that_is_busy_with_one_command_gets_three_times_as_long() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.busy["a1"] = None
    effects = hosts.wait(300)
    assert 3 * LIMIT_S * SECOND_NS <= driver.now_ns <= (3 * LIMIT_S + 1) * SECOND_NS
    assert "it has been busy with something else for 30." in only(named(effects))[1]


def test_a_machine_that_stood_still_has_no_stuck_hosts() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    hosts.wait(9.5)
    # All clocks, and what hosts say at first is from before.
    for host in ("a0", "a1"):
        hosts.stopped_ns[host] = driver.now_ns
    driver.now_ns += 60 * SECOND_NS
    assert named(hosts.wait(1)) == []
    hosts.stopped_ns.clear()
    assert named(hosts.wait(60)) == []


def test_time_in_which_the_controller_stood_still_does_not_count() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.wait(3)
    stood_still_ns = 60 * SECOND_NS
    driver.now_ns += stood_still_ns
    hosts.wait(30)
    # The first tick counts for a second.
    assert (LIMIT_S - 1) * SECOND_NS <= driver.now_ns - stood_still_ns <= (LIMIT_S + 1) * SECOND_NS


def test_an_executor_that_stopped_before_a_pause_of_all_has_its_time_behind_it() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    hosts.wait(1)
    asked: list[out.Probe] = []
    for tenths in range(50):  # on a slow link nothing is answered, and after 4 s the executor stops
        if tenths == 40:
            hosts.stopped_ns["a1"] = driver.now_ns
        for host, probe in sent(driver.pass_time(0.1), out.Probe):
            if host == "a1":
                asked.append(probe)
            else:
                driver.step(hosts.pulse(HostName(host), probe))
    driver.now_ns += 60 * SECOND_NS
    driver.step(hosts.pulse(HostName("a1"), asked[-1]))
    effects = hosts.wait(30)
    assert only(named(effects))[1].startswith("its executor has not answered for 10.")
    # Of the pause the first second counts.
    listened_ns = driver.now_ns - hosts.stopped_ns["a1"] - 59 * SECOND_NS
    assert LIMIT_S * SECOND_NS <= listened_ns <= (LIMIT_S + 1) * SECOND_NS


def test_an_answer_to_an_earlier_probe_says_nothing() -> None:
    driver, hosts = waiting()
    hosts.enter("a0", 1)
    hosts.silent["a1"] = None
    hosts.wait(5)
    late = events.HostPulsed(HostName("a1"), 0, Epoch(1), Sequence(1), 0, Sequence(0), 0, True, False)
    driver.step(late)
    assert "nothing has been heard of it" in only(named(hosts.wait(30)))[1]


def test_of_several_the_one_that_is_still_for_longest_is_named() -> None:
    driver, hosts = waiting()
    hosts.wait(1)
    hosts.stopped_ns["a1"] = hosts.stopped_ns["a0"] = driver.now_ns
    driver.finish("a0", 1)
    driver.execute(1, (10,), 21)
    hosts.wait(2)
    assert [host for host, _ in named(hosts.wait(30))] == ["a1"]


def test_the_other_island_goes_on_and_its_values_stay() -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.compile(1)
    driver.compile(2, devices=(2,))
    driver.put(10)
    driver.put(11, devices=(2,))
    driver.execute(1, (10,), 20)
    hosts = Hosts(driver)
    hosts.enter("a0", 1)
    effects = hosts.wait(30)
    assert [host for host, _ in named(effects)] == ["a1"]
    assert {host for host, _ in sent(effects, out.EpochEnd)} == {"a0", "a1"}
    assert len(sent(driver.execute(2, (11,), 21), out.Prepare)) == 1


def test_without_a_deadline_nobody_is_asked() -> None:
    _, hosts = waiting(stuck_ns=0)
    hosts.enter("a0", 1)
    assert named(hosts.wait(100)) == []
    assert hosts.probes == 0


def test_a_lost_array_says_what_it_was_where_it_lay_and_whose() -> None:
    driver, _ = waiting()
    driver.kill_executor("a1")
    lost = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert lost.message == (
        "an array of 16 B in 2 shards on hosts a0, a1 of island a, held by session 1 (test) of tenant default, is lost:"
        " host a1 of island a was lost in epoch 1: its executor ended (signal 9)"
    )
    assert (lost.metadata["array_bytes"], lost.metadata["array_hosts"], lost.metadata["tenant"]) == ("16", "a0,a1", "default")


def test_a_lost_program_is_named() -> None:
    driver = Driver()
    driver.facts["p"] = replace(facts(), name="jit_step")
    driver.open(1, ("*",))
    driver.compile(1)
    driver.execute(1, (), 20)
    driver.fetch(20)
    effects = driver.kill_executor("a1")
    assert failure_of(effects) == (
        "program jit_step failed: host a1 of island a was lost in epoch 1: its executor ended (signal 9)"
    )
