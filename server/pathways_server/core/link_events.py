"""Connections that broke and came back: what the shell tells of them. Who is given up, and when, the core decides."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.ids import HostName, SessionNumber


@dataclass(frozen=True, slots=True)
class SessionDetached:
    """The connection of a session broke without a goodbye; its client may come back."""

    session: SessionNumber
    reason: str


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """The client is back; both ends have sent again what the other had not received."""

    session: SessionNumber


@dataclass(frozen=True, slots=True)
class HostDetached:
    """The connection of this incarnation broke; the daemon may come back."""

    host: HostName
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class HostResumed:
    """The daemon is back, with the executor that it had."""

    host: HostName
    incarnation: int


@dataclass(frozen=True, slots=True)
class HostHeard:
    """Something came over the connection of this incarnation, maybe only a sign of life, while an answer of it is overdue."""

    host: HostName
    incarnation: int


LinkEvent = SessionDetached | SessionResumed | HostDetached | HostResumed | HostHeard
