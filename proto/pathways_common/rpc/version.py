"""Versions of the two ends of a stream: whether they fit, and if not, a table of both sides and the one thing to do.

They fit if the ranges of protocol levels overlap and `pathways` has the same major and minor number. Hosts of an island compile
together and have one jaxlib. Clients may have an older one: what they lower, newer compilers read. Functions that travel as
pickles (colocated Python) need the same Python and jax at both ends; nothing else is unpickled. An end that says nothing (a
client in another language) is taken at its word.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from pathways_proto.v1 import types_pb2

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.jaxlibs import minor_of, unserved_client, version_numbers

PROTOCOL_VERSION = "pathways.v1"
# Raised when an end has to understand what the level before did not have. The oldest is what this code still serves.
PROTOCOL_LEVEL = 2
OLDEST_PROTOCOL_LEVEL = 1
# Of ends from before levels were told.
_UNTOLD_LEVEL = 1
_COLUMNS = ("pathways", "protocol", "python", "jax", "jaxlib")
_NAMED_MAX = 8


def pathways_version() -> str:
    """The installed version of this project."""
    return _installed("pathways") or "0.0.0"


def own_versions(with_jax: bool = False, jaxlib: str = "") -> types_pb2.Versions:
    """Of this process. `with_jax`: it computes, or speaks for a process that does; `jaxlib` is what that has loaded, if known."""
    return types_pb2.Versions(
        pathways=pathways_version(),
        protocol_level=PROTOCOL_LEVEL,
        oldest_protocol_level=OLDEST_PROTOCOL_LEVEL,
        python=platform.python_version(),
        jax=_installed("jax") if with_jax else "",
        jaxlib=(jaxlib or _installed("jaxlib")) if with_jax else "",
    )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def row(process: str, versions: types_pb2.Versions) -> types_pb2.VersionRow:
    """One process of a table."""
    return types_pb2.VersionRow(processes=[process], versions=versions)


def mismatch(
    mine: types_pb2.Versions, other: types_pb2.Versions, other_name: str, rows: Sequence[types_pb2.VersionRow] = ()
) -> Failure | None:
    """The refusal of a peer; None if the two fit. `mine` are those of the controller, `rows` what else belongs into the table."""
    if not other.pathways:
        return None
    levels, others = _levels(mine), _levels(other)
    overlap = levels[0] <= others[1] and others[0] <= levels[1]
    if overlap and minor_of(mine.pathways) == minor_of(other.pathways):
        return None
    mine_first = version_numbers(mine.pathways) < version_numbers(other.pathways) if overlap else levels[1] < others[1]
    older = "the controller is older" if mine_first else f"the {other_name} is older"
    where = f"install pathways {mine.pathways} where the {other_name} runs"
    upgrade = f", or have the controller upgraded to {other.pathways}" if mine_first else ""
    what = (
        f"the {other_name} has pathways {other.pathways} (protocol {_range(others)}) and the controller has {mine.pathways} "
        f"(protocol {_range(levels)}), which do not fit; {older}: {where}{upgrade}"
    )
    return _refusal(what, [row(other_name, other), row("controller", mine), *rows], other_name)


def island_mismatch(name: str, own: types_pb2.Versions, others: Sequence[types_pb2.VersionRow]) -> Failure | None:
    """The refusal of a worker whose jaxlib is not that of the others of its island."""
    for other in others:
        theirs = other.versions.jaxlib
        if own.jaxlib and theirs and theirs != own.jaxlib:
            what = (
                f"{name} has jaxlib {own.jaxlib} and {_names(other)} has {theirs}, and they would compile the same program "
                f"differently: install jaxlib {theirs} where {name} runs"
            )
            return _refusal(what, [row(name, own), *others], name)
    return None


def client_mismatch(own: types_pb2.Versions, workers: Sequence[types_pb2.VersionRow]) -> Failure | None:
    """The refusal of a client whose jaxlib is not served, or newer than that of a worker, which could not read its programs."""
    rows = [row("client", own), *workers]
    if unserved := unserved_client(own.jaxlib):
        return _refusal(unserved, rows, "the client")
    for worker in workers:
        theirs = worker.versions.jaxlib
        if own.jaxlib and theirs and version_numbers(theirs)[:2] < version_numbers(own.jaxlib)[:2]:
            what = (
                f"the client has jaxlib {own.jaxlib} and {_names(worker)} has the older {theirs}, which may not read its "
                f"programs: install jaxlib {theirs} where the client runs"
            )
            return _refusal(what, rows, "the client")
    return None


def pickle_mismatch(own: types_pb2.Versions, workers: Sequence[types_pb2.VersionRow]) -> str:
    """Why workers cannot run functions of a client, in one sentence: code and JAX's own objects travel as they are."""
    for worker in workers:
        for name, mine, theirs in (
            ("jaxlib", own.jaxlib, worker.versions.jaxlib),
            ("Python", own.python, worker.versions.python),
        ):
            if mine and theirs and minor_of(mine) != minor_of(theirs):
                return (
                    f"colocated Python needs the {name} of the hosts at the client, and the client has {mine}, {_names(worker)} "
                    f"{theirs}: install {name} {theirs} where the client runs"
                )
    return ""


def _refusal(what: str, rows: Iterable[types_pb2.VersionRow], other_name: str) -> Failure:
    return Failure(Reason.VERSION_MISMATCH, f"{what}\n{table(rows)}", metadata={"other_name": other_name})


def grouped(rows: Iterable[types_pb2.VersionRow]) -> list[types_pb2.VersionRow]:
    """Processes with equal versions in one row, in the order in which they first come."""
    found: dict[bytes, types_pb2.VersionRow] = {}
    for each in rows:
        known = found.setdefault(
            each.versions.SerializeToString(deterministic=True), types_pb2.VersionRow(versions=each.versions)
        )
        known.processes.extend(each.processes)
    return list(found.values())


def table(rows: Iterable[types_pb2.VersionRow]) -> str:
    """For people: a line per row, what is unknown a dash."""
    lines = [("", *_COLUMNS), *((_names(each), *_cells(each.versions)) for each in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def line(rows: Sequence[types_pb2.VersionRow]) -> str:
    """All of them in one line: who runs what, and in what they differ."""
    parts = [f"{_names(each)}: {_words(each.versions)}" for each in grouped(rows)]
    differ = differences(rows)
    return "; ".join(parts) + (f" -- they differ in {', '.join(differ)}" if differ else "")


def differences(rows: Sequence[types_pb2.VersionRow]) -> list[str]:
    """The columns in which processes that have one differ."""
    known = [_cells(each.versions) for each in rows]
    return [name for index, name in enumerate(_COLUMNS) if len({cells[index] for cells in known if cells[index] != "-"}) > 1]


def _names(each: types_pb2.VersionRow) -> str:
    more = len(each.processes) - _NAMED_MAX
    return ", ".join(each.processes[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _cells(versions: types_pb2.Versions) -> tuple[str, ...]:
    cells = (versions.pathways, _range(_levels(versions)), versions.python, versions.jax, versions.jaxlib)
    return tuple(cell or "-" for cell in cells)


def _words(versions: types_pb2.Versions) -> str:
    cells = zip(_COLUMNS, _cells(versions), strict=True)
    return ", ".join(f"{name} {cell}" for name, cell in cells if cell != "-")


def _levels(versions: types_pb2.Versions) -> tuple[int, int]:
    """The oldest and the newest level."""
    newest = versions.protocol_level or _UNTOLD_LEVEL
    return min(versions.oldest_protocol_level or newest, newest), newest


def _range(levels: tuple[int, int]) -> str:
    oldest, newest = levels
    return str(newest) if oldest == newest else f"{oldest}-{newest}"
