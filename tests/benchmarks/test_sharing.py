"""Shares and utilisation come from what the emulator wrote; on a real cluster device time goes by declared shares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import shares
from tests.benchmarks.sharing import Box, boxes_in, busy_shares, gangs_in, sharing, utilisation, worked
from tests.tools import needs

MS = 1_000_000


def test_boxes_are_of_the_client_that_their_duration_names_and_cut_to_the_stretch(tmp_path: Path) -> None:
    rows = [(0, 2 * MS, MS), (2 * MS, 4 * MS, MS + 1), (4 * MS, 9 * MS, 3 * MS + 2), (9 * MS, 10 * MS, 0)]
    np.array(rows, np.int64).tofile(tmp_path / "12")
    np.array([], np.int64).tofile(tmp_path / "13")  # an executor that was a spare
    found = boxes_in(tmp_path, [MS, MS, 3 * MS], MS, 8 * MS)
    assert found == [[Box(MS, 2 * MS, 0), Box(2 * MS, 4 * MS, 1), Box(4 * MS, 8 * MS, 2)]]
    assert busy_shares(found[0], 3) == pytest.approx([1 / 7, 2 / 7, 4 / 7])


def test_a_gang_begins_with_its_last_member_and_ends_with_its_last_end(tmp_path: Path) -> None:
    first = [(0, 4 * MS, MS), (4 * MS, 8 * MS, MS + 1), (8 * MS, 12 * MS, MS)]
    second = [(1 * MS, 3 * MS, MS), (6 * MS, 9 * MS, MS + 1)]  # the last one has not ended there
    np.array(first, np.int64).tofile(tmp_path / "12")
    np.array(second, np.int64).tofile(tmp_path / "13")
    np.array([], np.int64).tofile(tmp_path / "14")
    assert gangs_in(tmp_path, [MS, MS], 2 * MS, 20 * MS) == [Box(2 * MS, 4 * MS, 0), Box(6 * MS, 9 * MS, 1)]


def test_what_devices_worked_counts_steps_as_long_as_they_were_told_to_last() -> None:
    assert worked([[Box(0, 30, 0), Box(30, 40, 1)], [Box(0, 10, 0), Box(70, 80, 0)]], 10) == pytest.approx((0.5 + 0.25) / 2)


def test_utilisation_counts_what_overlaps_once_and_is_the_mean_of_the_hosts() -> None:
    half = [Box(0, 10, 0), Box(30, 40, 1)]
    whole = [Box(0, 30, 0), Box(20, 40, 1)]
    assert utilisation([half, whole]) == pytest.approx((0.5 + 1) / 2)


def test_the_client_furthest_from_its_share_makes_the_deviation() -> None:
    assert shares.deviation_percent([0.26, 0.24, 0.25, 0.25], [1, 1, 1, 1]) == pytest.approx(4)
    assert shares.deviation_percent([1 / 15, 2 / 15, 4 / 15 * 0.9, 8 / 15], [1, 2, 4, 8]) == pytest.approx(10)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("weights", shares.WEIGHTS, ids=str)
def test_four_clients_get_device_time_by_their_shares_however_long_their_programs_are(weights: tuple[int, ...]) -> None:
    needs("emulated device time", "g++")
    with sharing(len(shares.LASTS_NS)) as running:
        shares.one_sample(running, weights, 2.0)  # measures the programs
        got, _ = shares.one_sample(running, weights, shares.SECONDS)
    assert shares.deviation_percent(got, weights) < shares.BAR_PERCENT, got
