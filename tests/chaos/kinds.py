"""What may happen to a cluster and its client, and what may become of work then: one entry per fault.

A fault is done by `strike` and, after the client has seen it, mended by what that gave. Faults of links, of the controller and of
other clients change no value and end no epoch; those of hosts may, and then the error names the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from pathways.cli.query import Controller
from pathways.testing import CLIENT, CONTROLLER, DAEMON, FaultyCluster, wait_until
from pathways_proto.v1 import movements_pb2

# Of the cluster that the matrix starts, by the environment of its controller. Islands are lost every few seconds there.
SETTINGS = {"STUCK_AFTER_S": "2", "LEASE_S": "6", "GRACE_S": "3", "REFORM_PAUSE_S": "1"}
KEEPALIVE_S = 2.0
DRAIN_S = 90.0  # behind the work that is there, at most a minute of it
# Longer than the keep-alive, shorter than a lease, and than keep-alive and grace: no host is lost by its link. Longer than the
# deadline for who is stuck, too: others wait for the host, so it may be named, and then for that alone.
HELD_S = 3.0
SILENT = r"nothing has been heard of it for (\d+\.\d) s, and it "
LOST_S = 7.0  # longer than keep-alive and grace

# What may happen to work on a host that is lost: the island's gangs, its arrays, and transfers that had its daemon at one end.
OF_HOSTS = frozenset({"SliceLostError", "BufferLostError", "UnavailableError"})

Strike = Callable[[FaultyCluster, str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Kind:
    """`errors`: kinds of error that work may end with, besides being right. `client_ends`: the client does not live on.

    `silent`: a host may only be lost because nothing was heard of it for the deadline while others waited for it.
    `loses_host`: whatever the host does then, its epoch ends. `forms_anew`: an island does without having lost anything.
    `islands`: how many there have to be. `on_slice`: the client works on a slice that one host has room for, and is
    replaced, since what was put out of an island comes back when nobody uses it.
    """

    name: str
    strike: Strike
    errors: frozenset[str] = frozenset()
    silent: bool = False
    client_ends: bool = False
    loses_host: bool = False
    forms_anew: bool = False
    islands: int = 1
    on_slice: bool = False


@contextmanager
def _once(action: Callable[[], object]) -> Iterator[None]:
    action()
    yield


def _kill(cluster: FaultyCluster, host: str) -> AbstractContextManager[Any]:
    return _once(lambda: cluster.kill(host))


@contextmanager
def _kill_daemon(cluster: FaultyCluster, host: str) -> Iterator[None]:
    """It is started again at once, as a service manager would."""
    cluster.kill(host, DAEMON)
    cluster.revive(host)
    yield


@contextmanager
def _kill_controller(cluster: FaultyCluster, _host: str) -> Iterator[None]:
    """The same."""
    cluster.kill(what=CONTROLLER)
    cluster.revive()
    yield


@contextmanager
def _drain(cluster: FaultyCluster, host: str) -> Iterator[None]:
    """It, or its like on the island that the client uses: whatever lies there goes to the other one."""
    (session,) = cluster.status().sessions
    with _drained(cluster, session.islands[0] + host[1:]):
        yield


@contextmanager
def _drain_within(cluster: FaultyCluster, host: str) -> Iterator[None]:
    """There is no other island: the other host has all of the slice, and the island forms of it, under its client.

    The daemon of the one that is DRAINED is killed: that is nobody's loss. It is started again when the client has gone.
    """
    epoch = cluster.epoch()
    with _drained(cluster, host):
        hosts = [name for held in cluster.status().slices for name in held.hosts]
        assert hosts, "the client's slice is gone"
        assert host not in hosts, f"{host} is DRAINED and has {hosts} of the slice"
        assert cluster.epoch() > epoch, f"{host} is DRAINED and still in the epoch"
        cluster.kill(host, DAEMON)
        yield


@contextmanager
def _drained(cluster: FaultyCluster, host: str) -> Iterator[None]:
    with Controller(cluster.direct, cluster.state_dir.token()) as controller:

        def drained() -> bool:
            answer = controller.movements("DrainHost", movements_pb2.DrainHostRequest(host=host))
            return bool(answer.state == "DRAINED")

        wait_until(drained, f"host {host} to be DRAINED", DRAIN_S)
        yield
        controller.movements("UndrainHost", movements_pb2.UndrainHostRequest(host=host))


@contextmanager
def _for_a_while(fault: AbstractContextManager[Any], seconds: float = HELD_S) -> Iterator[None]:
    with fault:
        time.sleep(seconds)  # the fault itself
    yield


def _drop(cluster: FaultyCluster, dialler: str) -> AbstractContextManager[Any]:
    def broken() -> None:
        with cluster.drop(dialler):
            pass

    return _once(broken)


KINDS = (
    Kind("executor killed", _kill, OF_HOSTS, loses_host=True),
    Kind("executor stopped", lambda cluster, host: cluster.stop(host), OF_HOSTS),
    Kind("daemon killed and started again", _kill_daemon, OF_HOSTS, loses_host=True),
    Kind("daemon stopped for 3 s", lambda cluster, host: _for_a_while(cluster.stop(host, DAEMON)), OF_HOSTS, silent=True),
    Kind("controller killed and started again", _kill_controller),
    Kind("host drained and taken back", _drain, forms_anew=True, islands=2),
    Kind("host drained within its island", _drain_within, forms_anew=True, on_slice=True),
    Kind("controller stopped for 3 s", lambda cluster, _: _for_a_while(cluster.stop(what=CONTROLLER))),
    Kind("link of a host dropped", _drop),
    Kind("link of a host held for 3 s", lambda cluster, host: _for_a_while(cluster.delay(host)), OF_HOSTS, silent=True),
    Kind(
        "link of a host held for 7 s", lambda cluster, host: _for_a_while(cluster.delay(host), LOST_S), OF_HOSTS, loses_host=True
    ),
    Kind("link of a host slow (0.2 s)", lambda cluster, host: cluster.delay(host, 0.2)),
    Kind("link of the client dropped", lambda cluster, _: _drop(cluster, CLIENT)),
    Kind("link of the client held for 3 s", lambda cluster, _: _for_a_while(cluster.delay(CLIENT))),
    Kind("client killed", lambda cluster, _: _once(lambda: None), client_ends=True),
    Kind("client interrupted (Ctrl-C)", lambda cluster, _: _once(lambda: None), client_ends=True),
)
