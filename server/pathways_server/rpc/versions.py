"""Versions of whoever connects, compared with ours and with those of the workers that are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pathways_common.model.failure import Failure
from pathways_common.rpc.version import client_mismatch, grouped, island_mismatch, mismatch, own_versions, row
from pathways_proto.v1 import types_pb2

from pathways_server.core.natural_order import natural
from pathways_server.rpc.form import checked_words
from pathways_server.shell.peer import HostPeer


def versions_of(hello: Any) -> types_pb2.Versions:
    """What a hello says of its sender, also where it says so in the older fields; raises PathwaysError if it is malformed."""
    said = types_pb2.Versions()
    said.CopyFrom(hello.versions)
    said.pathways = said.pathways or hello.pathways_version
    said.jaxlib = said.jaxlib or hello.jaxlib_version
    if "python_version" in hello.DESCRIPTOR.fields_by_name:
        said.python = said.python or hello.python_version
    for name in ("pathways", "python", "jax", "jaxlib"):
        checked_words(getattr(said, name), f"hello.versions.{name}")
    return said


def worker_rows(peers: Iterable[HostPeer]) -> list[types_pb2.VersionRow]:
    """One row for each worker that said what it is made of."""
    known = sorted((peer for peer in peers if peer.versions is not None), key=lambda peer: natural(peer.name))
    return [row(f"worker {peer.name}", peer.versions) for peer in known]


def all_rows(peers: Iterable[HostPeer]) -> list[types_pb2.VersionRow]:
    """The controller and its workers, those with equal versions in one row."""
    return grouped([row("controller", own_versions()), *worker_rows(peers)])


def client_refusal(said: types_pb2.Versions, peers: Iterable[HostPeer]) -> Failure | None:
    """Why a client cannot be served: it speaks another protocol, or no compiler is there for its programs."""
    workers = grouped(worker_rows(peers))
    return mismatch(own_versions(), said, "client", workers) or client_mismatch(said, workers)


def worker_refusal(said: types_pb2.Versions, host: str, island: str, peers: Iterable[HostPeer]) -> Failure | None:
    """Why a worker cannot join: it speaks another protocol, or the others of its island compile otherwise."""
    others = grouped(worker_rows(peer for peer in peers if peer.island == island and peer.name != host))
    return mismatch(own_versions(), said, "worker", others) or island_mismatch(f"worker {host}", said, others)
