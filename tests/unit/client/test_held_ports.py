"""Ports that are held can be listened on again and again, and nobody else gets them."""

from __future__ import annotations

import errno
import socket

import pytest
from pathways.testing.ports import HeldPorts

HOST = "127.0.0.1"


def listener(port: int) -> socket.socket:
    """As servers listen."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((HOST, port))
    found.listen()
    return found


def taken(port: int) -> bool:
    """Whether the kernel refuses the port to somebody who does not share it."""
    with socket.socket() as other:
        try:
            other.bind((HOST, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def test_a_held_port_has_one_listener_after_the_other_and_belongs_to_nobody_else_between_them() -> None:
    held = HeldPorts(HOST, 2)
    first, second = held.numbers
    try:
        assert first != second
        for _ in range(2):
            assert taken(first)
            with listener(first), pytest.raises(OSError, match="in use"):
                listener(first)
        assert taken(first)
        assert taken(second)
    finally:
        held.close()
    assert not taken(second)
