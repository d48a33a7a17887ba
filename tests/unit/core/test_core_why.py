"""`pathways why` in words: what is waited for, who has it, since when, which number in line it is, and about when it begins."""

from __future__ import annotations

import pytest
from pathways_common.model.ids import GlobalId, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import why
from pathways_server.core.obstacles import WaitKind

from tests.unit.core.core_driver import Driver, gid, sent
from tests.unit.core.core_shares import MS, Bench
from tests.unit.core.test_core_quotas import granted, ready

SECOND_NS = 10**9


def asked(driver: Driver, identifier: GlobalId) -> why.Answer:
    return why.of_work(driver.core.state, driver.now_ns, identifier, None)


def test_work_that_waits_for_its_turn_says_who_has_it_and_about_when_it_begins() -> None:
    bench = Bench()
    light, heavy = bench.join("light", 2 * MS), bench.join("heavy", 4 * MS, weight=3)
    bench.run(400 * MS)
    state, now_ns = bench.driver.core.state, bench.driver.now_ns
    session = state.sessions[SessionNumber(light.session)]
    (lane,) = [each for each in session.lanes.values() if each.queue]
    head = lane.queue[0]
    before = sum(number == light.session for number, _, _ in bench.order)
    before += sum(gang.session == light.session for gang in bench.queue)
    answer = asked(bench.driver, head.id)
    (reason,) = answer.reasons
    assert reason.kind is WaitKind.TURN
    assert answer.sentences[0].endswith(" waits: it waits for its turn on island a")
    assert answer.sentences[1].startswith("waits for its turn on island a: session ")
    assert f"session {heavy.session} (1 in flight)" in answer.sentences[1]
    assert answer.sentences[1].endswith(f"; for {(now_ns - head.requested_ns) / 1e9:.1f} s now")
    told = why.of_session(state, now_ns, session.number, None).sentences
    assert answer.estimate_ns is not None
    assert told[1].endswith(f" s now; it begins in about {answer.estimate_ns / 1e9:.1f} s")
    bench.run(200 * MS)
    begun = [begin for number, begin, _ in bench.order if number == light.session]
    # At most one gang of each more or less than was reckoned.
    assert begun[before] - now_ns == pytest.approx(answer.estimate_ns, abs=6 * MS)


def test_work_that_waits_for_a_quota_says_which_number_in_line_it_is() -> None:
    driver = ready(sessions=3, programs_max=1)
    assert granted(driver.execute(100, (1,), 10)) == [5010]
    for session, result in ((3, 20), (2, 30), (1, 40)):
        assert granted(driver.execute(100, (1,), result, session=session)) == []
    driver.now_ns += 2 * SECOND_NS
    for place, (session, identifier) in enumerate(((3, 5020), (2, 5030), (1, 5040)), 1):
        head, sentence = asked(driver, gid(identifier, session)).sentences
        assert head.endswith(f"(max_programs, set by its administrator) (number {place} of 3 in line)")
        assert ": tenant ads: 1 programs in flight, " in sentence
        # An hour, less what it has waited.
        assert sentence.endswith("; for 2.0 s now, given up in 59 min 58 s")
    driver.finish("a0", 1)
    assert granted(driver.finish("a1", 1)) == [5020]
    assert "(number 1 of 2 in line)" in asked(driver, gid(5030, 2)).sentences[0]


def test_a_program_that_one_host_of_several_still_compiles_is_what_its_session_waits_for() -> None:
    """Also while no work names it: its client asks for a run when all of it is there."""
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    loads = dict(sent(driver.compile(1), out.Load))
    driver.now_ns += 3 * SECOND_NS
    driver.step(driver.loaded("a0", loads["a0"]))
    answer = why.of_session(driver.core.state, driver.now_ns, SessionNumber(1), None)
    (reason,) = answer.reasons
    assert (reason.kind, reason.holder) == (WaitKind.PROGRAM, "host a1, which compile or load it")
    assert "has no work in line or in flight" in answer.sentences[0]
    assert answer.sentences[1].startswith("waits for loading of program 1.1: host a1, which compile or load it; for 3.0 s now")
    driver.step(driver.loaded("a1", loads["a1"]))
    assert why.of_session(driver.core.state, driver.now_ns, SessionNumber(1), None).reasons == ()
