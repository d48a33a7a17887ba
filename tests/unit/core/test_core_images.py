"""Which host is told to get an image, and where, and what is counted."""

from __future__ import annotations

import hashlib

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName
from pathways_common.model.image import KeptImage
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.snapshot import take

from tests.unit.core.core_driver import Driver, facts, only, replies, sent

TWO_ISLANDS = {"a": ["a0", "a1"], "b": ["b0", "b1"]}


def image(host: str) -> KeptImage:
    return KeptImage(100, hashlib.sha256(host.encode()).digest())


def cluster(islands: dict[str, list[str]] | None = None, devices: int = 1, compilers: dict[str, str] | None = None) -> Driver:
    """A session on all islands; loads are answered by the test."""
    driver = Driver(islands or TWO_ISLANDS, devices=devices, compilers=compilers)
    driver.open(1, ("*",))
    driver.answer_loads = False
    return driver


def answer(driver: Driver, host: str, load: out.Load, reused: bool = False, keeps: bool = True) -> list[out.Effect]:
    kept = image(host) if keeps else None
    event = events.ExecutableLoaded(HostName(host), load.epoch, load.executable_id, facts(), None, reused, kept)
    return driver.step(event)


def compiled(driver: Driver, number: int, *devices: int, keeps: bool = True) -> list[out.Effect]:
    """Compiles; every host answers that it did, and keeps the image."""
    effects = driver.compile(number, devices)
    for host, load in sent(effects, out.Load):
        answer(driver, host, load, keeps=keeps)
    return effects


def sources(effects: list[out.Effect]) -> dict[str, str]:
    """From which host each of those that load may pull; empty: from none."""
    return {host: "" if load.source is None else load.source.host for host, load in sent(effects, out.Load)}


def test_a_host_without_the_image_is_told_of_one_that_has_it_and_that_one_offers_it() -> None:
    driver = cluster()
    compiled(driver, 1, 0)
    effects = driver.compile(2, (2,))
    (offering, offer) = only(sent(effects, out.OfferImage))
    (loading, load) = only(sent(effects, out.Load))
    assert (offering, loading) == ("a0", "b0")
    assert load.source == out.ImageSource(HostName("a0"), offer.fetch_id, 100, image("a0").digest, offer.timeout_ns)
    assert (offer.key, load.image_key) == ("p/0x1", "p/0x1")


def test_a_host_that_has_the_image_is_told_of_no_other() -> None:
    driver = cluster(devices=2)
    compiled(driver, 1, 0)
    assert sources(driver.compile(2, (1,))) == {"a0": ""}


def test_members_of_a_gang_pull_from_several_hosts() -> None:
    driver = cluster()
    compiled(driver, 1, 0, 1)
    effects = driver.compile(2, (2, 3))
    assert set(sources(effects)) == {"b0", "b1"}
    assert sorted(sources(effects).values()) == ["a0", "a1"]
    offers = {host: offer.fetch_id for host, offer in sent(effects, out.OfferImage)}
    assert {load.source.fetch_id for _, load in sent(effects, out.Load) if load.source} == set(offers.values())
    assert len(set(offers.values())) == 2, "a ticket is for one pull"


def test_order_and_choice_of_devices_do_not_count_and_their_spread_over_hosts_does() -> None:
    driver = cluster({"a": ["a0", "a1"]}, devices=2)
    keys = []
    for number, devices in enumerate(((0, 1), (1, 0), (3, 2), (0, 2), (3, 1), (0, 1, 2, 3), (0, 2, 1, 3)), 1):
        keys.append({load.image_key for _, load in sent(driver.compile(number, devices), out.Load)})
    assert keys == [{"p/0x2"}] * 3 + [{"p/0x1.1x1"}] * 2 + [{"p/0x2.1x2"}, {"p/0x1.1x1.0x1.1x1"}]


def test_other_programs_and_those_with_callbacks_have_no_image_of_this_one() -> None:
    driver = cluster()
    compiled(driver, 1, 0)
    ((_, other),) = sent(driver.compile(2, (2,), "q"), out.Load)
    assert (other.image_key, other.source) == ("q/0x1", None)
    ((_, calls),) = sent(driver.compile(3, (2,), callbacks=(7,)), out.Load)
    assert (calls.image_key, calls.source, calls.callback_ids) == ("", None, (7,))


def test_images_go_between_hosts_with_one_compiler_only() -> None:
    driver = cluster(compilers={"b0": "another", "b1": "xla"})
    compiled(driver, 1, 0)
    assert sources(driver.compile(2, (2,))) == {"b0": ""}
    assert sources(driver.compile(3, (3,))) == {"b1": "a0"}


def test_a_host_that_does_not_say_its_compiler_gets_and_gives_nothing() -> None:
    driver = cluster(compilers={"a0": "", "b0": ""})
    compiled(driver, 1, 0)
    assert sources(driver.compile(2, (2,))) == {"b0": ""}
    assert sources(driver.compile(3, (3,))) == {"b1": ""}


def test_nobody_is_sent_to_a_host_that_keeps_it_no_longer_or_is_gone() -> None:
    driver = cluster()
    compiled(driver, 1, 0, keeps=False)
    assert sources(driver.compile(2, (2,))) == {"b0": ""}
    compiled(driver, 3, 0)
    compiled(driver, 4, 0, keeps=False)
    assert sources(driver.compile(5, (2,))) == {"b0": ""}
    compiled(driver, 6, 0)
    driver.lose("a0")
    assert sources(driver.compile(7, (2,))) == {"b0": ""}
    assert driver.core.state.images == {}


def test_an_island_in_a_new_epoch_loads_with_the_same_keys() -> None:
    driver = cluster({"a": ["a0", "a1"]})
    compiled(driver, 1, 0, 1)
    driver.kill_executor("a1")
    driver.put(10)
    loads = sent(driver.execute(1, (10,), 20), out.Load)
    assert [(host, load.image_key, load.source, load.epoch) for host, load in loads] == [
        ("a0", "p/0x1.1x1", None, 2),
        ("a1", "p/0x1.1x1", None, 2),
    ]


def test_what_was_compiled_and_what_was_not_is_counted_and_failures_are_neither() -> None:
    driver = cluster()
    compiled(driver, 1, 0)
    for number, reused in ((2, True), (3, True), (4, False)):
        ((host, load),) = sent(driver.compile(number, (2,)), out.Load)
        assert replies(answer(driver, host, load, reused), out.Compiled)[0].failure is None
    ((host, load),) = sent(driver.compile(5, (2,)), out.Load)
    failure = Failure(Reason.COMPILE_ERROR, "bad shape", host=host)
    driver.step(events.ExecutableLoaded(HostName(host), load.epoch, load.executable_id, None, failure))
    figures = {host.name: host for island in take(driver.core.state, 0).islands for host in island.hosts}
    assert (figures["a0"].executables_compiled, figures["a0"].executables_reused) == (1, 0)
    assert (figures["b0"].executables_compiled, figures["b0"].executables_reused) == (1, 2)


def test_what_is_known_of_images_is_bounded_and_the_longest_unused_goes() -> None:
    driver = Driver(TWO_ISLANDS, images_max=2)
    driver.open(1, ("*",))
    driver.answer_loads = False
    for number, program in ((1, "p"), (2, "q"), (3, "p"), (4, "r")):
        ((host, load),) = sent(driver.compile(number, (0,), program), out.Load)
        answer(driver, host, load)
    assert list(driver.core.state.images) == ["p/0x1", "r/0x1"]


# ---- one compiles for all ------------------------------------------------------------------------------------------------

FOUR = {"a": ["a0", "a1", "a2", "a3"]}


def gang(hosts: dict[str, list[str]] | None = None, compilers: dict[str, str] | None = None) -> Driver:
    driver = Driver(hosts or FOUR, compilers=compilers, compile_once_platforms=("cpu",))
    driver.open(1, ("*",))
    driver.answer_loads = False
    return driver


def test_one_member_compiles_and_the_others_pull_from_it() -> None:
    driver = gang()
    ((first, load),) = sent(driver.compile(1, (0, 1, 2, 3)), out.Load)
    assert load.source is None
    effects = answer(driver, first, load)
    assert sources(effects) == {host: first for host in FOUR["a"] if host != first}
    offers = sent(effects, out.OfferImage)
    assert [host for host, _ in offers] == [first] * 3
    assert len({offer.fetch_id for _, offer in offers}) == 3, "a ticket is for one pull"
    assert replies(effects, out.Compiled) == []
    last: list[out.Effect] = []
    for host, load in sent(effects, out.Load):
        last = answer(driver, host, load, reused=True)
    assert replies(last, out.Compiled)[0].failure is None
    assert all(sent(effects, out.Load) == [] for effects in (last, driver.step(events.TimePassed())))


def test_many_programs_are_spread_over_the_members() -> None:
    driver = gang()
    firsts = [only(sent(driver.compile(number, (0, 1, 2, 3), f"p{number}"), out.Load))[0] for number in range(1, 41)]
    assert all(firsts.count(host) >= 3 for host in FOUR["a"]), firsts


def test_each_kind_of_compiler_has_one_that_compiles() -> None:
    driver = gang(compilers={"a0": "x", "a1": "y", "a2": "y", "a3": ""})
    loads = dict(sent(driver.compile(1, (0, 1, 2, 3)), out.Load))
    assert {"a0", "a3"} < set(loads)
    (first,) = set(loads) - {"a0", "a3"}
    (other,) = {"a1", "a2"} - {first}
    assert sent(answer(driver, "a0", loads["a0"]), out.Load) == []
    assert sources(answer(driver, first, loads[first])) == {other: first}


def test_without_an_image_the_others_compile() -> None:
    driver = gang()
    ((first, load),) = sent(driver.compile(1, (0, 1, 2, 3)), out.Load)
    assert sources(answer(driver, first, load, keeps=False)) == {host: "" for host in FOUR["a"] if host != first}


def test_what_somebody_keeps_nobody_waits_for() -> None:
    driver = gang({"a": ["a0", "a1"], "b": ["b0", "b1"]})
    ((first, load),) = sent(driver.compile(1, (0, 1)), out.Load)
    answer(driver, first, load)
    assert sources(driver.compile(2, (2, 3))) == {"b0": first, "b1": first}


def test_a_member_that_was_told_nothing_is_not_told_to_unload() -> None:
    driver = gang()
    ((first, load),) = sent(driver.compile(1, (0, 1, 2, 3)), out.Load)
    failure = Failure(Reason.COMPILE_ERROR, "bad shape", host=first)
    effects = driver.step(events.ExecutableLoaded(HostName(first), load.epoch, load.executable_id, None, failure))
    assert [host for host, _ in sent(effects, out.Unload)] == [first]
    assert replies(effects, out.Compiled)[0].failure == failure


def test_when_the_one_that_compiles_dies_the_next_epoch_begins_anew() -> None:
    driver = gang()
    ((first, load),) = sent(driver.compile(1, (0, 1, 2, 3)), out.Load)
    ((again, load),) = sent(driver.kill_executor(first), out.Load)
    assert (again, load.epoch) == (first, 2)
    assert len(sources(answer(driver, again, load))) == 3


def test_members_that_tune_together_compile_side_by_side() -> None:
    driver = Driver(FOUR, compile_once_platforms=())
    driver.open(1, ("*",))
    driver.answer_loads = False
    assert sources(driver.compile(1, (0, 1, 2, 3))) == dict.fromkeys(FOUR["a"], "")
