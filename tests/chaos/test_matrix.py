"""The matrix judges by its rules, and some of its cells hold on a real cluster; `make chaos` plays all of them, by seeds."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.chaos import matrix, published
from tests.chaos.kinds import HELD_S, KEEPALIVE_S, KINDS, OF_HOSTS, SETTINGS, Kind
from tests.chaos.matrix import ELASTIC, PHASES, Client, Trial, chaotic_cluster, nothing_left, table, trial
from tests.chaos.phases_of import names_of_phases

BY_NAME = {kind.name: kind for kind in KINDS}
KILLED, DROPPED = BY_NAME["executor killed"], BY_NAME["link of the client dropped"]


def told(ended: str, host: str = "", **more: str) -> dict[str, Any]:
    return {"ended": ended, "host": host, "message": "m", **more}


@pytest.mark.parametrize(
    ("kind", "found", "again", "epochs", "broken"),
    [
        (KILLED, told("SliceLostError", "a1"), "right", 1, ""),
        (KILLED, told("right"), "right", 1, ""),
        (KILLED, told("SliceLostError", "a0"), "right", 1, "a0 was named for a1"),
        (KILLED, told("BufferLostError"), "right", 1, "nobody was named for a1"),
        (KILLED, told("InternalError", "a1"), "right", 1, "it ended with InternalError"),
        (KILLED, told("wrong"), "right", 1, "it ended with wrong"),
        (KILLED, told("SliceLostError", "a1"), "wrong", 1, "it did not work again: wrong"),
        (DROPPED, told("right"), "right", 0, ""),
        (DROPPED, told("SliceLostError", "a1"), "right", 0, "it ended with SliceLostError"),
        (DROPPED, told("right"), "right", 1, "an epoch ended though no host was lost"),
    ],
)
def test_a_trial_is_judged_by_its_rules(kind: Kind, found: dict[str, Any], again: str, epochs: int, broken: str) -> None:
    said = matrix._judge(kind, "idle", "a1", found, {"again": again, "message": ""}, epochs)
    assert said.startswith(broken)
    assert bool(said) == bool(broken)


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        (
            "host a1 of island a was lost in epoch 3: nothing has been heard of it for 2.1 s, and it did not start program p",
            False,
        ),
        ("host a1 of island a was lost in epoch 3: nothing has been heard of it for 1.9 s, and it did not start program p", True),
        ("host a1 of island a was lost in epoch 3: its connection ended (it had none for 3.0 s)", True),
    ],
)
@pytest.mark.parametrize("name", ["link of a host held for 3 s", "daemon stopped for 3 s"])
def test_a_host_that_is_silent_for_less_than_keep_alive_and_grace_is_lost_for_its_silence_alone(
    name: str, message: str, broken: bool
) -> None:
    found = {"ended": "SliceLostError", "host": "a1", "message": message}
    said = matrix._judge(BY_NAME[name], "idle", "a1", found, {"again": "right", "message": ""}, 1)
    assert said.startswith("it was not lost for its silence" if broken else "")
    assert bool(said) == broken
    assert float(SETTINGS["STUCK_AFTER_S"]) < HELD_S < KEEPALIVE_S + float(SETTINGS["GRACE_S"])


def test_training_goes_on_whatever_becomes_of_hosts() -> None:
    again = {"again": "right", "message": ""}
    assert matrix._judge(KILLED, ELASTIC, "a1", told("right"), again, 1) == ""
    said = matrix._judge(KILLED, ELASTIC, "a1", told("SliceLostError", "a1"), again, 1)
    assert said.startswith("it does not go on by itself: SliceLostError")


@pytest.mark.parametrize("name", ["host drained and taken back", "host drained within its island"])
def test_a_drained_host_fails_nothing_and_its_island_forms_anew(name: str) -> None:
    drained, again = BY_NAME[name], {"again": "right", "message": ""}
    assert matrix._judge(drained, "idle", "a1", told("right"), again, 2) == ""
    assert matrix._judge(drained, "idle", "a1", told("BufferLostError", "a1"), again, 2).startswith(
        "it ended with BufferLostError"
    )


def test_faults_of_links_and_of_the_controller_may_change_nothing() -> None:
    assert all(not kind.errors or kind.errors == OF_HOSTS for kind in KINDS)
    assert {kind.name for kind in KINDS if not kind.errors and not kind.client_ends} == {
        "controller stopped for 3 s", "link of a host dropped", "link of a host slow (0.2 s)", "link of the client dropped",
        "link of the client held for 3 s", "controller killed and started again", "host drained and taken back",
        "host drained within its island",
    }  # fmt: skip


def test_only_training_over_a_slow_link_has_longer() -> None:
    longer = {(kind.name, phase) for kind in KINDS for phase in PHASES if matrix.answer_s(kind, phase) != 45}
    assert longer == {("link of a host slow (0.2 s)", "training")}
    assert matrix.answer_s(BY_NAME["link of a host slow (0.2 s)"], "training") == 90


def test_the_script_has_every_phase() -> None:
    assert names_of_phases() == list(PHASES)


def test_the_table_counts_what_held_and_shows_the_longest_time() -> None:
    trials = [Trial("executor killed", "idle", seed, "right", float(seed), "" if seed < 3 else "wrong") for seed in (1, 2, 3)]
    (row,) = [line for line in table(trials) if line.startswith("| executor killed |")]
    assert row.endswith("| 2 of 3, 2.0 s |  |")


def test_the_page_shows_what_is_published() -> None:
    rows = published.table(published.load(), [kind.name for kind in KINDS], PHASES)
    assert len(rows) == 2 + len(KINDS)
    assert "\n".join(rows) + "\n" in published.PAGE.read_text()


def test_a_trial_that_is_repeated_replaces_the_earlier_one() -> None:
    cells = published.add(
        {}, [["executor killed", "idle", 4, "", 0.0, "it did not come"], ["executor killed", "idle", 5, "right", 1.26, ""]]
    )
    assert cells == {"executor killed": {"idle": {4: None, 5: 1.3}}}
    assert published.add(cells, [["executor killed", "idle", 4, "right", 2.0, ""]])["executor killed"]["idle"] == {4: 2.0, 5: 1.3}


@pytest.mark.slow
@pytest.mark.cluster
def test_some_cells_of_the_matrix_hold() -> None:
    """One cell of each kind of fault that takes little time, each in another phase."""
    cells = [
        ("executor killed", "reading"), ("link of a host dropped", "transferring"), ("link of the client dropped", "queued"),
        ("controller killed and started again", "granted"), ("executor killed", "training"),
        ("link of a host held for 7 s", "reading"),
    ]  # fmt: skip
    with chaotic_cluster() as running:
        client = Client(running)
        for name, phase in cells:
            done = trial(running, client, BY_NAME[name], phase, 1)
            assert done.broken == "", done
        done = trial(running, client, BY_NAME["client killed"], "uploading", 1)
        assert (done.ended, done.broken) == ("gone", "")
        last = Client(running)
        last.end(signal.SIGINT)
        nothing_left(running)
