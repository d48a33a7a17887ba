"""The images of one host: what a Load takes along, what it waits for, and what is dropped."""

from __future__ import annotations

import itertools

import pytest
from pathways_common.model.ids import GlobalId, SessionNumber, global_id
from pathways_worker.core.images import (
    Discard,
    Drop,
    Erase,
    ExecutablesUnloaded,
    ExecutorChanged,
    ExecutorDied,
    Forward,
    ImagePulled,
    ImageRead,
    Images,
    Keep,
    LoadAnswered,
    LoadWanted,
    Pull,
    Read,
    Store,
)

ONE, TWO, THREE = GlobalId(1), GlobalId(2), GlobalId(3)
KEY, OTHER = "program/0x2", "program/0x1.1x1"


def of(session: int, number: int) -> GlobalId:
    return global_id(SessionNumber(session), number)


def compiled(images: Images, identifier: GlobalId, key: str, size_bytes: int = 10) -> None:
    """A host that compiled this and keeps its image."""
    assert images.step(LoadWanted(identifier, key, False)) == [Forward(identifier, "")]
    assert Keep(key) in images.step(LoadAnswered(identifier, size_bytes, False))


def test_a_load_takes_the_image_along_that_an_equal_one_left() -> None:
    images = Images()
    compiled(images, ONE, KEY)
    assert images.step(LoadWanted(TWO, KEY, False)) == [Forward(TWO, KEY)]
    assert images.step(LoadWanted(THREE, OTHER, False)) == [Forward(THREE, "")], "other hosts per device: another image"


def test_a_load_waits_for_an_equal_one_that_is_being_compiled() -> None:
    images = Images()
    images.step(LoadWanted(ONE, KEY, False))
    assert images.step(LoadWanted(TWO, KEY, False)) == []
    assert images.step(LoadWanted(THREE, KEY, True)) == []
    assert images.step(LoadAnswered(ONE, 10, False)) == [Keep(KEY), Forward(TWO, KEY), Forward(THREE, KEY)]


def test_one_that_is_asked_for_once_more_under_another_key_is_no_maker_of_the_first() -> None:
    images = Images()
    images.step(LoadWanted(ONE, KEY, False))
    assert images.step(LoadWanted(ONE, OTHER, False)) == [Forward(ONE, "")]
    images.step(LoadAnswered(ONE, 10, False))
    assert images.step(LoadWanted(TWO, KEY, False)) == [Forward(TWO, "")], "nobody makes it"
    assert images.step(LoadWanted(THREE, OTHER, False)) == [Forward(THREE, OTHER)]


def test_without_an_image_those_that_waited_are_compiled_one_after_the_other() -> None:
    images = Images()
    images.step(LoadWanted(ONE, KEY, False))
    images.step(LoadWanted(TWO, KEY, False))
    images.step(LoadWanted(THREE, KEY, False))
    assert images.step(LoadAnswered(ONE, 0, False)) == [Forward(TWO, "")]
    assert images.step(LoadAnswered(TWO, 10, False)) == [Keep(KEY), Forward(THREE, KEY)]


def test_an_image_is_pulled_once_for_all_that_want_it_and_not_if_it_is_here() -> None:
    images = Images()
    assert images.step(LoadWanted(ONE, KEY, True)) == [Pull(ONE, KEY)]
    assert images.step(LoadWanted(TWO, KEY, True)) == []
    assert images.step(ImagePulled(KEY, 10)) == [Keep(KEY), Forward(ONE, KEY), Forward(TWO, KEY)]
    assert images.step(LoadWanted(THREE, KEY, True)) == [Forward(THREE, KEY)]


def test_a_pull_that_brought_nothing_ends_in_one_compilation() -> None:
    images = Images()
    images.step(LoadWanted(ONE, KEY, True))
    images.step(LoadWanted(TWO, KEY, True))
    assert images.step(ImagePulled(KEY, 0)) == [Forward(ONE, "")]
    assert images.step(LoadAnswered(ONE, 10, False)) == [Keep(KEY), Forward(TWO, KEY)]


def test_an_unloaded_executable_is_not_loaded_later() -> None:
    images = Images()
    images.step(LoadWanted(ONE, KEY, True))
    images.step(LoadWanted(TWO, KEY, True))
    assert images.step(ExecutablesUnloaded((ONE, THREE))) == [Discard(ONE, unloaded=True)]
    assert images.step(ImagePulled(KEY, 10)) == [Keep(KEY), Forward(TWO, KEY)]


def test_another_executor_gets_no_load_of_the_one_before_but_its_images() -> None:
    images = Images()
    images.step(LoadWanted(ONE, KEY, False))
    images.step(LoadWanted(TWO, KEY, False))
    images.step(LoadWanted(THREE, OTHER, True))
    assert images.step(ExecutorChanged()) == [Discard(TWO), Discard(THREE)]
    assert images.step(LoadAnswered(ONE, 10, False)) == [], "nothing of the one before is heard"
    assert images.step(ImagePulled(OTHER, 10)) == [Keep(OTHER)]
    assert images.step(LoadWanted(ONE, KEY, False)) == [Forward(ONE, "")], "nobody is compiling it any more"
    assert images.step(LoadWanted(THREE, OTHER, False)) == [Forward(THREE, OTHER)]


def test_an_image_that_an_executor_died_of_is_dropped_and_no_other_one() -> None:
    images = Images()
    compiled(images, ONE, KEY)
    compiled(images, TWO, OTHER)
    images.step(LoadWanted(ONE, KEY, False))
    images.step(LoadWanted(TWO, OTHER, False))
    assert images.step(ExecutorChanged()) == []
    assert images.step(ExecutorDied()) == [Drop(KEY)]
    assert (images.holds(KEY), images.holds(OTHER)) == (False, True)


def test_an_image_that_an_executor_died_of_is_not_pulled_from_a_host_that_has_it_still() -> None:
    images = Images()
    assert images.step(LoadWanted(ONE, KEY, True)) == [Pull(ONE, KEY)]
    assert images.step(ImagePulled(KEY, 10)) == [Keep(KEY), Forward(ONE, KEY)]
    images.step(ExecutorChanged())
    assert images.step(ExecutorDied()) == [Drop(KEY)]
    assert images.step(LoadWanted(ONE, KEY, True)) == [Forward(ONE, "")], "else every epoch ends with the same image"
    assert images.step(LoadWanted(TWO, OTHER, True)) == [Pull(TWO, OTHER)]
    assert images.step(LoadAnswered(ONE, 10, False)) == [Keep(KEY)]
    assert images.step(LoadWanted(THREE, KEY, True)) == [Forward(THREE, KEY)], "what was compiled here instead is good"


@pytest.mark.parametrize("died_loading", [False, True])
def test_an_executor_that_ends_otherwise_costs_no_image(died_loading: bool) -> None:
    images = Images()
    compiled(images, ONE, KEY)
    images.step(LoadWanted(TWO, KEY, False))
    if not died_loading:
        images.step(LoadAnswered(TWO, 0, True))
    images.step(ExecutorChanged())
    if not died_loading:
        assert images.step(ExecutorDied()) == []
    assert images.holds(KEY), "another member died, or it died of something else"


def test_an_image_that_could_not_be_loaded_gives_way_to_what_was_compiled_instead() -> None:
    images = Images()
    compiled(images, ONE, KEY, 10)
    images.step(LoadWanted(TWO, KEY, False))
    assert images.step(LoadAnswered(TWO, 12, False)) == [Drop(KEY), Keep(KEY)]
    assert images.kept_bytes == 12
    images.step(LoadWanted(TWO, KEY, False))
    assert images.step(LoadAnswered(TWO, 0, False)) == [Drop(KEY)]
    assert images.kept_bytes == 0


def test_images_are_bounded_in_bytes_and_number_and_the_least_used_go_first() -> None:
    images = Images(bytes_max=100, count_max=3)
    for number, key in zip(itertools.count(1), ("a", "b", "c")):
        compiled(images, GlobalId(number), key, 20)
    assert images.holds("a")
    images.step(LoadWanted(GlobalId(4), "d", False))
    assert images.step(LoadAnswered(GlobalId(4), 20, False)) == [Keep("d"), Drop("b")]
    images.step(LoadWanted(GlobalId(5), "e", False))
    assert images.step(LoadAnswered(GlobalId(5), 70, False)) == [Keep("e"), Drop("c"), Drop("a")]
    assert (images.kept_bytes, images.kept_count) == (90, 2)
    images.step(LoadWanted(GlobalId(6), "f", False))
    assert images.step(LoadAnswered(GlobalId(6), 101, False)) == [], "larger than all there is room for"


def test_an_image_on_disk_is_read_once_for_all_that_want_it_and_not_pulled() -> None:
    images = Images(storing=True)
    assert images.step(LoadWanted(ONE, KEY, True, stored=True)) == [Read(KEY)]
    assert images.step(LoadWanted(TWO, KEY, False, stored=True)) == []
    assert images.step(ImageRead(KEY, 10)) == [Keep(KEY), Forward(ONE, KEY), Forward(TWO, KEY)], "it is on disk, and stays there"
    assert images.step(LoadWanted(THREE, KEY, False, stored=True)) == [Forward(THREE, KEY)]


def test_a_file_of_no_use_ends_in_one_compilation_whose_image_takes_its_place() -> None:
    images = Images(storing=True)
    images.step(LoadWanted(ONE, KEY, False, stored=True))
    images.step(LoadWanted(TWO, KEY, False, stored=True))
    assert images.step(ImageRead(KEY, 0)) == [Forward(ONE, "")]
    assert images.step(LoadAnswered(ONE, 10, False)) == [Keep(KEY), Store(KEY), Forward(TWO, KEY)]


def test_what_was_compiled_or_pulled_is_stored_and_what_was_of_no_use_is_erased() -> None:
    images = Images(storing=True)
    images.step(LoadWanted(ONE, KEY, True))
    assert images.step(ImagePulled(KEY, 10)) == [Keep(KEY), Store(KEY), Forward(ONE, KEY)]
    # The executor could not load it and compiled instead.
    assert images.step(LoadAnswered(ONE, 12, False)) == [Drop(KEY), Erase(KEY), Keep(KEY), Store(KEY)]


def test_a_file_that_an_executor_died_of_is_erased_and_not_read_again() -> None:
    images = Images(storing=True)
    images.step(LoadWanted(ONE, KEY, False, stored=True))
    images.step(ImageRead(KEY, 10))
    images.step(ExecutorChanged())
    assert images.step(ExecutorDied()) == [Drop(KEY), Erase(KEY)]
    # Erasing may have failed.
    assert images.step(LoadWanted(TWO, KEY, False, stored=True)) == [Forward(TWO, "")]


def test_a_read_that_outlives_its_executor_is_kept_for_the_next_one() -> None:
    images = Images(storing=True)
    images.step(LoadWanted(ONE, KEY, False, stored=True))
    assert images.step(ExecutorChanged()) == [Discard(ONE)]
    assert images.step(LoadWanted(TWO, KEY, False, stored=True)) == [], "it is being read"
    assert images.step(ImageRead(KEY, 10)) == [Keep(KEY), Forward(TWO, KEY)]


def test_an_image_that_memory_has_no_room_for_stays_on_disk() -> None:
    images = Images(bytes_max=15, storing=True)
    compiled(images, ONE, KEY)
    images.step(LoadWanted(TWO, OTHER, False))
    assert images.step(LoadAnswered(TWO, 10, False)) == [Keep(OTHER), Store(OTHER), Drop(KEY)], "not erased"
    assert images.step(LoadWanted(THREE, KEY, False, stored=True)) == [Read(KEY)]


# ---- sessions ----------------------------------------------------------------------------------------------------------


def test_what_another_session_has_far_back_in_line_is_not_waited_for() -> None:
    images = Images()
    slow, common, ours, theirs = of(1, 1), of(1, 2), of(2, 1), of(3, 1)
    images.step(LoadWanted(slow, OTHER, False))
    images.step(LoadWanted(common, KEY, False))
    assert images.step(LoadWanted(ours, KEY, False)) == [Forward(ours, "")]
    assert images.step(LoadWanted(theirs, KEY, False)) == [], "the first of its session begins as soon as its own would"
    assert images.step(LoadAnswered(ours, 10, False)) == [Keep(KEY), Forward(theirs, KEY)]


def test_what_can_have_no_image_stands_in_line_all_the_same() -> None:
    images = Images()
    called, common, ours = of(1, 1), of(1, 2), of(2, 1)
    assert images.step(LoadWanted(called, "", False)) == [Forward(called, "")]
    images.step(LoadWanted(common, KEY, False))
    assert images.step(LoadWanted(ours, KEY, False)) == [Forward(ours, "")]
    assert images.step(LoadAnswered(called, 0, False)) == []


def test_of_what_an_executor_died_of_the_first_image_of_each_session_is_suspected() -> None:
    images = Images()
    keys = ["first", "second", "third"]
    for number, key in enumerate(keys):
        compiled(images, of(9, 1 + number), key)
    images.step(LoadWanted(of(1, 1), keys[0], False))
    images.step(LoadWanted(of(1, 2), keys[1], False))
    images.step(LoadWanted(of(2, 1), keys[2], False))
    assert images.step(ExecutorChanged()) == []
    assert images.step(ExecutorDied()) == [Drop(keys[0]), Drop(keys[2])]
