"""A link passes bytes as they are, and is slow, held, broken or out of order while it is told to be."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from pathways.testing.links import Link, Links

TIMEOUT_S = 20.0


class Echo:
    """Sends back what comes, whatever the number of connections; to whoever says `frames`, numbered frames instead."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                if data == b"frames":
                    data = b"".join(struct.pack("<I", size) + bytes([size]) * size for size in (1, 0, 2, 3, 4))
                connection.sendall(data)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def linked() -> Iterator[tuple[Link, Echo]]:
    echo, links = Echo(), Links()
    try:
        yield links.open("127.0.0.1", [echo.port], echo.port), echo
    finally:
        links.close()
        echo.close()


def dialled(link: Link, echo: Echo) -> socket.socket:
    return socket.create_connection((link.host, echo.port), TIMEOUT_S)


def read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, f"the connection ended after {len(data)} of {size} bytes"
        data += more
    return data


def framed(*sizes: int) -> bytes:
    return b"".join(struct.pack("<I", size) + bytes([size]) * size for size in sizes)


def test_bytes_pass_as_they_are_on_an_address_of_the_links_own() -> None:
    with linked() as (link, echo):
        assert link.host.startswith("127.")
        assert link.host != "127.0.0.1"
        with dialled(link, echo) as connection:
            sent = framed(200, 100, 0, 250) * 1000
            threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
            assert read(connection, len(sent)) == sent


def test_a_slow_link_delays_both_ways_and_is_fast_again() -> None:
    with linked() as (link, echo), dialled(link, echo) as connection:
        link.set_delay(0.2)
        began_s = time.monotonic()
        connection.sendall(framed(1))
        assert read(connection, 5) == framed(1)
        assert time.monotonic() - began_s >= 2 * 0.2
        link.set_delay(0.0)
        connection.sendall(framed(2))
        assert read(connection, 6) == framed(2)


def test_a_held_link_lets_nothing_through_and_loses_nothing() -> None:
    with linked() as (link, echo), dialled(link, echo) as connection:
        link.hold(True)
        connection.sendall(framed(7))
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        link.hold(False)
        connection.settimeout(TIMEOUT_S)
        assert read(connection, 11) == framed(7)


def test_a_dropped_link_breaks_what_is_there_and_what_comes_until_it_is_let() -> None:
    with linked() as (link, echo), dialled(link, echo) as connection:
        connection.sendall(framed(1))
        read(connection, 5)
        link.drop(True)
        with suppress(ConnectionError):
            assert connection.recv(1) == b""
        with suppress(ConnectionError), dialled(link, echo) as another:
            another.sendall(framed(1))
            assert another.recv(1) == b""
        link.drop(False)
        with dialled(link, echo) as third:
            third.sendall(framed(3))
            assert read(third, 7) == framed(3)


def test_a_frame_changes_places_with_the_next_one_and_signs_of_life_with_none() -> None:
    with linked() as (link, echo), dialled(link, echo) as connection:
        link.swap(1)
        connection.sendall(b"frames")
        assert read(connection, 30) == framed(0, 2, 1, 3, 4)
        assert link.swapped == 1


def test_a_frame_that_nothing_follows_goes_alone_and_the_next_pair_is_swapped() -> None:
    with linked() as (link, echo), dialled(link, echo) as connection:
        link.swap(1)
        connection.sendall(framed(9))
        assert read(connection, 13) == framed(9)
        assert link.swapped == 0
        connection.sendall(framed(1, 2))
        assert read(connection, 11) == framed(2, 1)
