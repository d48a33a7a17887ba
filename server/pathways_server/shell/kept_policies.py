"""How islands order work, as it was set at run time, in the next life of the controller.

What the journal keeps wins over the configuration file, as for tenants; what the command line says wins over both, and is logged
where it is something else. Then the journal still has what was set, for a start without that flag.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pathways_common.process.logs import fields

from pathways_server.config import EVERY_ISLAND, Config
from pathways_server.core.events import PolicySet
from pathways_server.core.state import State

_LOG = logging.getLogger(__name__)


def with_kept_policies(config: Config, kept: Mapping[str, str]) -> Config:
    """The configuration with the policies that were set at run time, by island."""
    every = EVERY_ISLAND in config.policies_insisted
    insisted = {island for island in kept if every or island in config.policies_insisted}
    given = {island: config.island_policies.get(island, config.policy) for island in sorted(insisted)}
    if other := [f"{island}: {given[island]}, not {kept[island]}" for island in given if given[island] != kept[island]]:
        _LOG.warning("policy of the command line in place of what was set at run time", extra=fields(islands="; ".join(other)))
    found = {island: policy for island, policy in kept.items() if island not in insisted}
    return replace(config, island_policies=MappingProxyType({**config.island_policies, **found}))


def policies_set(state: State) -> list[PolicySet]:
    """What a core that goes on has to hear, whose islands chose otherwise in an earlier life."""
    wanted = {island.name: state.config.policy_of(island.name) for island in state.islands.values() if island.tenant is None}
    return [PolicySet(name, policy) for name, policy in wanted.items() if state.islands[name].ground.policy is not policy]
