"""After the last session nothing is left: in the core, on the hosts."""

from __future__ import annotations

from typing import Any

from tests.simulation import sim_loader
from tests.simulation.checkers.checker import Checker


class Leaks(Checker):
    name = "leaks"

    def at_end(self) -> None:
        state = self.cluster.core.state
        tables: dict[str, Any] = {
            "sessions": state.sessions, "pending": state.pending, "readers": state.readers,
            "source fetches": state.source_fetches, "pulls": state.pulls, "suspicions": state.suspicions,
            "transfers": state.transfers, "arrays on their way to stores": state.moving,
            "slices": state.slices, "calls": state.calls, "inspects": state.inspects, "programs": state.programs,
            "traces": state.collections, "questions for sessions": state.asked,
            "cells": [island.name for island in state.islands.values() if island.tenant is not None],
        }  # fmt: skip
        for island in state.islands.values():
            tables[f"executables of {island.name}"] = island.executables
            tables[f"lanes of {island.name}"] = island.lanes
            tables[f"gangs of {island.name}"] = island.inflight
            tables[f"held by {island.name}"] = list(island.held)
            tables[f"runs of {island.name}"] = {**island.runs, **island.paced}
        for known in state.hosts.values():
            at_work = sim_loader.under_way(self.cluster.hosts[known.name])
            tables[f"answered loads of {known.name}"] = [each for each in known.loads if each not in at_work]
        for name, table in tables.items():
            self.look()
            if table:
                self.violate(f"the core still holds {len(table)} {name}: {list(table)[:4]}")
        for host in self.cluster.hosts.values():
            self.look()
            if left := host.leftovers():
                self.violate(f"{host.name} still holds {len(left)} values: {left[:4]}")
