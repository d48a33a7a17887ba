"""Connections between two processes that are not ours: ended, or made to carry nothing, without the processes' help.

`pidfd_getfd` gives us a process's own socket (Linux 5.6; for one's descendants, or root). Shut down, both ends read the end of
the stream. With a filter on it that takes no byte, the kernel drops every packet that comes, as a link does that has gone
silent: nothing arrives and nothing ends, and what was sent meanwhile is sent again once the filter is off.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psutil

_PIDFD_GETFD = 438
_ATTACH_FILTER, _DETACH_FILTER = 26, 27  # of SOL_SOCKET; Python has no names for them


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def _take_nothing() -> _Program:
    """BPF_RET | BPF_K with 0 bytes."""
    return _Program(1, ctypes.pointer(_Instruction(6, 0, 0, 0)))


def _socket_of(pid: int, descriptor: int) -> socket.socket:
    """The same socket, in this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        taken = libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if taken < 0:
        raise OSError(
            ctypes.get_errno(), f"socket {descriptor} of process {pid} cannot be had: {os.strerror(ctypes.get_errno())}"
        )
    return socket.socket(fileno=taken)


@contextmanager
def between(one: psutil.Process, other: psutil.Process) -> Iterator[list[socket.socket]]:
    """Both ends of every TCP connection that two processes have with each other."""
    ends = [
        (process.pid, each.fd, each.laddr, each.raddr)
        for process in (one, other)
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_ESTABLISHED
    ]
    owners = {near: pid for pid, _, near, _ in ends}
    with ExitStack() as stack:
        yield [
            stack.enter_context(_socket_of(pid, descriptor)) for pid, descriptor, near, far in ends if owners.get(far, pid) != pid
        ]


def end(ends: list[socket.socket]) -> None:
    """The connections are over."""
    for each in ends:
        with suppress(OSError):  # the other end was ended before
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def stalled(ends: list[socket.socket]) -> Iterator[None]:
    """Nothing arrives on them."""
    program = _take_nothing()
    for each in ends:
        each.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, bytes(program))
    try:
        yield
    finally:
        for each in ends:
            each.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
