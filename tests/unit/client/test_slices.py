"""Virtual slices as a user sees them: arguments here, everything else in a process of its own against a stand-in cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pathways as pw
import pytest

HERE = Path(__file__).parent
FAKE = HERE.parent / "door" / "fake_cluster.py"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "how many devices"),
        ({"devices": 0}, "0 devices make no slice"),
        ({"devices": True}, "True devices make no slice"),
        ({"devices": 2.0}, "2.0 devices make no slice"),
        ({"tpu_devices": 2, "devices": 2}, "two names for one number"),
        ({"mesh_shape": ()}, "one to 3 positive"),
        ({"mesh_shape": (2, 0)}, "one to 3 positive"),
        ({"mesh_shape": (1, 1, 1, 1)}, "one to 3 positive"),
        ({"mesh_shape": (2, 2), "devices": 3}, "has 4 devices, and 3 were asked for"),
        ({"devices": 1, "wait": True, "timeout": 0}, "positive number of seconds"),
        ({"devices": 1, "wait": True, "timeout": float("nan")}, "positive number of seconds"),
    ],
)
def test_senseless_requests_are_refused_before_anything_is_asked(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(pw.errors.InvalidArgumentError, match=words):
        pw.make_virtual_device_set().add_slice(**arguments)


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "IFRT_", "PATHWAYS_"))}


@pytest.fixture(scope="module")
def said() -> Iterator[dict[str, Any]]:
    cluster = subprocess.Popen(
        [sys.executable, str(FAKE), "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_clean() | {"JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    try:
        address = "grpc://" + json.loads(cluster.stdout.readline())["address"]
        done = subprocess.run(
            [sys.executable, str(HERE / "slice_checks.py"), address],
            env=_clean() | {"PATHWAYS_STATE_DIR": "/nonexistent"}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout) | {"stderr": done.stderr}
    finally:
        cluster.stdin.close()
        cluster.wait(10)
        cluster.stdout.close()


def test_functions_of_the_paper_run_on_slices_of_their_own(said: dict[str, Any]) -> None:
    assert said["paper"] == [[3.0, 5.0], [2.0, 4.0]]


def test_pool_devices_do_not_show_among_the_devices(said: dict[str, Any]) -> None:
    assert said["devices"] == [2, 2, 2]


def test_more_slices_than_the_pool_has_follow_one_another(said: dict[str, Any]) -> None:
    assert said["one after another"] == [16.0 * number for number in range(6)]
    assert said["threads"] == [0.0, 16.0]


def test_slice_says_what_it_is(said: dict[str, Any]) -> None:
    text = said["slice"][3]
    assert said["slice"] == [2, "a", ["a0", "a1"], text, 2]
    assert text.startswith("<pathways slice ")
    assert text.endswith(": 2 devices on island a (a0, a1)>")
    assert said["released"] == [True, text[:-1] + ", released>"]


def test_use_after_release_says_what_to_do(said: dict[str, Any]) -> None:
    kind, text = said["used after release"]
    assert (kind, text.endswith("belongs to no slice; call add_slice")) == ("ProgramRefusedError", True)
    assert said["near"][0] == "InvalidArgumentError"
    assert "no slice of this session any more" in said["near"][1]


def test_refusals_and_waits_have_the_clusters_sentence(said: dict[str, Any]) -> None:
    assert said["never"] == ["InvalidArgumentError", "99 devices can never be had: the largest island, a, has 2"]
    assert said["waited"] == ["TimedOutError", "no slice in time; waiting for 1 device held by session 7"]
    assert "waiting for 1 device held by session 7" in said["stderr"]


def test_slices_need_a_connection_and_end_with_it(said: dict[str, Any]) -> None:
    assert said["unconnected"][0] == "UnavailableError"
    assert "call pw.connect()" in said["unconnected"][1]
    assert said["closed"] == [True, "UnavailableError"]
