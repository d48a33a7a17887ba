"""Workers of a cluster as users start it are on the framed port, one connection each, and their gRPC channel is not kept."""

from __future__ import annotations

from contextlib import suppress

import grpc
import psutil
import pytest
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc

from tests.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster


def connections_to(cluster: Cluster, port: int) -> int:
    """Established ones, seen from the end that dialled."""
    found = []
    for process in cluster.processes():
        with suppress(psutil.NoSuchProcess):  # one that ends just now has none
            found += process.net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and bool(each.raddr) and each.raddr.port == port for each in found)


def test_every_worker_is_on_the_framed_port_and_on_no_other(cluster: Cluster) -> None:
    address = parse_address(cluster.address)
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        version = cluster_pb2_grpc.ClustersStub(channel).GetVersion(cluster_pb2.GetVersionRequest(), timeout=10)
    assert version.link_port
    assert connections_to(cluster, version.link_port) == 2
    port = int(address.rpartition(":")[2])
    wait_until(lambda: connections_to(cluster, port) == 0, "the workers to let go of their gRPC channels")
