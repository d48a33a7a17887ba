"""Fault tests of your own: a cluster on this machine whose processes and links fail when you say so.

    from pathways import testing

    with testing.cluster(hosts=2) as cluster:
        with cluster.stop("a1"):
            ...

In pytest, the fixture `pathways_cluster` gives the same (docs/testing-your-faults.md).
"""

from pathways.testing.cluster import CLIENT, CONTROLLER, DAEMON, EXECUTOR, FaultyCluster, cluster
from pathways.testing.scripts import Lines, end_script, wait_until

__all__ = ["CLIENT", "CONTROLLER", "DAEMON", "EXECUTOR", "FaultyCluster", "Lines", "cluster", "end_script", "wait_until"]
