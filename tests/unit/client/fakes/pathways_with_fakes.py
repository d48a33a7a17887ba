"""The command `pathways` with fake daemons in place of the real ones."""

from __future__ import annotations

from pathways.cli import cluster
from pathways.cli.main import main

cluster.CONTROLLER = "fake_controller"
cluster.WORKER = "fake_worker"
main()
