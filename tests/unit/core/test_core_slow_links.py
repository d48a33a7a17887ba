"""Hosts behind slow links are not stuck: what they are told comes late, and so do their answers, but signs of life come."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import only
from tests.unit.core.test_core_stuck import LIMIT_S, SECOND_NS, Hosts, named, waiting


@dataclass
class Distant(Hosts):
    """The hosts are so far away: probes, answers and what they begin travel. Signs of life come every two seconds and a half."""

    each_way_s: float = 5.0
    gang_late_s: float = 5.0  # the gang arrives so late
    gone_after_s: dict[str, float] = field(default_factory=dict)  # then nothing comes from there

    def wait(self, seconds: float, tick_s: float = 0.1) -> list[out.Effect]:
        """As for hosts nearby."""
        driver, began_ns = self.driver, self.driver.now_ns
        coming: list[tuple[int, HostName, out.Probe]] = []
        answers: list[tuple[int, events.HostPulsed]] = []
        end_ns, sign_ns = began_ns + int(seconds * SECOND_NS), began_ns
        effects: list[out.Effect] = []

        def there(host: str) -> bool:
            return driver.now_ns - began_ns < self.gone_after_s.get(host, seconds) * SECOND_NS

        while driver.now_ns < end_ns and not named(effects):
            effects = driver.pass_time(tick_s)
            way_ns = int(self.each_way_s * SECOND_NS)
            for effect in effects:
                if isinstance(effect, out.SendToHost) and isinstance(effect.command, out.Probe):
                    coming.append((driver.now_ns + way_ns, effect.host, effect.command))
            if self.gang_late_s and driver.now_ns - began_ns >= self.gang_late_s * SECOND_NS and not self.entered:
                for host in ("a0", "a1"):
                    self.enter(host, 1)
            while coming and coming[0][0] <= driver.now_ns:
                _, host, probe = coming.pop(0)
                if host not in self.silent and there(host):
                    answers.append((driver.now_ns + way_ns, self.pulse(host, probe)))
            while answers and answers[0][0] <= driver.now_ns:
                driver.step(answers.pop(0)[1])
            if driver.now_ns - sign_ns >= 2.5 * SECOND_NS:
                sign_ns = driver.now_ns
                for host in filter(there, ("a0", "a1")):
                    record = driver.core.state.hosts[HostName(host)]
                    driver.step(events.HostHeard(HostName(host), record.incarnation))
        return effects


@pytest.mark.parametrize(("each_way_s", "gang_late_s"), [(2.5, 7.5), (5, 5), (5, 15), (7, 20)])
def test_hosts_behind_slow_links_are_only_slow(each_way_s: float, gang_late_s: float) -> None:
    """Also where the gang waits for a round trip before it leaves, behind frames that are not acknowledged."""
    driver, _ = waiting()
    hosts = Distant(driver, each_way_s=each_way_s, gang_late_s=gang_late_s)
    assert named(hosts.wait(120)) == []
    assert hosts.entered


def test_a_member_behind_a_slow_link_that_begins_nothing_is_named_two_round_trips_later() -> None:
    driver, _ = waiting()
    hosts = Distant(driver, gang_late_s=0)
    hosts.enter("a0", 1)
    assert only(named(hosts.wait(120)))[0] == "a1"
    assert (LIMIT_S + 20) * SECOND_NS <= driver.now_ns <= (LIMIT_S + 31) * SECOND_NS


def test_an_executor_behind_a_slow_link_that_shows_no_life_is_named() -> None:
    driver, _ = waiting()
    hosts = Distant(driver)
    hosts.stopped_ns["a1"] = driver.now_ns
    host, why = only(named(hosts.wait(120)))
    assert (host, why.startswith("its executor has not answered for")) == ("a1", True)
    assert driver.now_ns <= (LIMIT_S + 11) * SECOND_NS


def test_a_daemon_that_lives_and_does_not_answer_gets_three_times_as_long() -> None:
    driver, _ = waiting()
    hosts = Distant(driver, gang_late_s=0)
    hosts.silent["a1"] = None
    hosts.enter("a0", 1)
    host, why = only(named(hosts.wait(120)))
    assert (host, why.startswith("nothing has been heard of it for 30.")) == ("a1", True)


def test_who_gives_no_sign_of_life_any_more_is_named_the_deadline_later() -> None:
    driver, _ = waiting()
    hosts = Distant(driver, gang_late_s=0)
    hosts.enter("a0", 1)
    hosts.gone_after_s["a1"] = 4
    host, why = only(named(hosts.wait(120)))
    assert (host, "nothing has been heard of it for 12." in why) == ("a1", True)
    # The last sign came after 2.5 s.
    assert (LIMIT_S + 2) * SECOND_NS <= driver.now_ns <= (LIMIT_S + 3) * SECOND_NS
