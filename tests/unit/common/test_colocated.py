"""Strings as blocks of bytes."""

from __future__ import annotations

import pytest
from pathways_common.model.colocated import STRING_SHARD_BYTES, string_block, string_contents
from pathways_common.model.failure import PathwaysError, Reason

ROOM = STRING_SHARD_BYTES - 4


@pytest.mark.parametrize("contents", [b"", b"\x0a\x02ab", b"x" * ROOM])
def test_a_block_has_one_size_and_gives_its_contents_back(contents: bytes) -> None:
    block = string_block(contents)
    assert len(block) == STRING_SHARD_BYTES
    assert string_contents(block) == contents


def test_strings_that_do_not_fit_are_told_to_their_reader() -> None:
    with pytest.raises(PathwaysError, match="more than 65532 bytes") as refused:
        string_contents(string_block(b"x" * (ROOM + 1)))
    assert refused.value.failure.reason is Reason.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("block", [b"", b"\xfe\xff\x00\x00" + bytes(ROOM), bytes(100)])
def test_other_bytes_are_no_block(block: bytes) -> None:
    with pytest.raises(PathwaysError, match="no shard of strings"):
        string_contents(block)
