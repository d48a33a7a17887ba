"""Requests of pathwaysutils: what the door reads in them, and the sentence for each that it cannot serve."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pathways_common.model.colocated import STORAGE_TIMEOUT_NS
from pathways_common.model.failure import PathwaysError, Reason
from pathways_door.plugin_texts import read_text
from pathways_door.sharding import Placement
from pathways_door.utility_texts import ReshardText, StorageText, StoredText, read_utility_text
from pathways_proto.ifrt import values_pb2

sys.path.insert(0, str(Path(__file__).parent))
from utility_requests import COPIES, HALVES, asked, lies, read, reshard, stored, write


def test_a_reshard_names_where_its_arrays_go() -> None:
    text = reshard([lies([0, 1]), lies([1, 0])], [lies([2, 3], memory_kind="pinned_host"), lies([1], COPIES)], donate=True)
    found = read_utility_text(text, 4)
    assert found == ReshardText((0, 1), (Placement((2, 3), HALVES, "pinned_host"), Placement((1,), b"", "")), True)
    # As it travels: behind the words that say that it is a plugin program.
    program = values_pb2.Serialized(type_name="xla::ifrt::PluginProgram", data=b"__serialized_plugin_program " + text)
    assert read_text(program, 4) == found


def test_a_request_to_write_names_arrays_whose_types_their_arguments_have() -> None:
    found = read_utility_text(write(stored("a", [0, 1]), stored("b", [1, 0], COPIES, folder="file:///x/")), 4)
    assert found == StorageText(
        True,
        (
            StoredText("/data/a", (8,), Placement((0, 1), HALVES, ""), 0),
            StoredText("/x/b", (8,), Placement((1, 0), b"", ""), 0),
        ),
        (0, 1),
        30 * 10**9 + 500,
    )


def test_a_request_to_read_names_types_and_a_single_one_is_read_like_many() -> None:
    one = asked("a", [3], COPIES, shape={"xla_primitive_type_str": "BF16", "dimensions": [2, 2]}, timeout={"seconds": 3600})
    expected = StorageText(False, (StoredText("/data/a", (2, 2), Placement((3,), b"", ""), 16),), (3,), STORAGE_TIMEOUT_NS)
    assert read_utility_text(read(one), 4) == expected
    assert read_utility_text(json.dumps({"persistenceReadRequest": one}).encode(), 4) == expected


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        (b'{"profileRequest": {"traceLocation": "gs://b"}}', Reason.UNSUPPORTED, "look at a run with `pathways trace`"),
        (b'{"somethingElse": {}}', Reason.UNSUPPORTED, "the request somethingElse of pathwaysutils is not served here"),
        (b'{"reshardRequest": ', Reason.INVALID_ARGUMENT, "is no request of pathwaysutils (JSONDecodeError"),
        (b'{"a": 1, "b": 2}', Reason.INVALID_ARGUMENT, "is no request of pathwaysutils (ValueError"),
        (b"{" * 100_000, Reason.INVALID_ARGUMENT, "is no request of pathwaysutils"),
        (b'{"reshardRequest": 7}', Reason.INVALID_ARGUMENT, "is no request of pathwaysutils (TypeError"),
        (b'{"a":' + b"[" * 100_000, Reason.INVALID_ARGUMENT, "is no request of pathwaysutils (RecursionError"),
        (reshard([], []), Reason.INVALID_ARGUMENT, "a reshard has 0 arrays"),
        (reshard([lies([0, 1])], []), Reason.INVALID_ARGUMENT, "1 arrays and 0 places"),
        (reshard([lies([0, 1])], [lies([4, 5])]), Reason.INVALID_ARGUMENT, "device 4 is not one of the 4 devices"),
        (reshard([lies([0, 1])], [lies([2, 2])]), Reason.INVALID_ARGUMENT, "name at least one, and none twice"),
        (reshard([lies([0, 1], b"\xff")], [lies([2, 3])]), Reason.INVALID_ARGUMENT, "no xla.OpSharding"),
        (write(), Reason.INVALID_ARGUMENT, "names no arrays"),
        (write(stored("a", [0, 1]), stored("a", [0, 1])), Reason.INVALID_ARGUMENT, "one array twice"),
        (write(stored("a", [0, 1]), stored("b", [2, 3])), Reason.INVALID_ARGUMENT, "/data/b lies on other devices than /data/a"),
        (write(stored("a", [0, 1], folder="gs://b")), Reason.UNSUPPORTED, "not gs://b; give its absolute path"),
        (write(stored("a", [0, 1], folder="data")), Reason.UNSUPPORTED, "not data; give its absolute path"),
        (write(stored("a", [0], HALVES)), Reason.INVALID_ARGUMENT, "a sharding over 2 tiles does not fit 1 devices"),
        (read(asked("a", [0, 1], shape={"xla_primitive_type_str": "X", "dimensions": []})), Reason.INVALID_ARGUMENT, "KeyError"),
        (write(stored("a", [0, 1], shape=[-8])), Reason.INVALID_ARGUMENT, "sizes are not negative"),
        (write(stored("a", [0, 1], shape=[float("inf")])), Reason.INVALID_ARGUMENT, "OverflowError"),
        (write(stored("a", [0, 1], b64_name="?")), Reason.INVALID_ARGUMENT, "'?' is not base64"),
    ],
)
def test_what_cannot_be_served_says_so_in_one_sentence(text: bytes, reason: Reason, words: str) -> None:
    with pytest.raises(PathwaysError) as caught:
        read_utility_text(text, 4)
    assert caught.value.failure.reason is reason
    assert words in caught.value.failure.message
    assert "\n" not in caught.value.failure.message
