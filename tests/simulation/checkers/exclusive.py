"""Exclusive devices are never shared, a slice has different devices of one island in the shape that was asked for, all go back.

Kept from what the core says (its log, its grants), not from its tables.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from pathways_common.model.cells import plain_name
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker
from tests.simulation.checkers.grants import Grant

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster


_CHANGES = ("slice added", "slice moved", "slice suspended", "slice resumed", "slice released")


class Exclusive(Checker):
    """Holders by (session, slice): island, positions and whether they are exclusive."""

    name = "exclusive"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.wishes: dict[tuple[int, int], events.SliceRequested] = {}
        self.holders: dict[tuple[int, int], tuple[str, tuple[int, ...], bool]] = {}
        self.asleep: dict[tuple[int, int], tuple[str, tuple[int, ...], bool]] = {}  # suspended
        self.slice_of: dict[tuple[int, int], tuple[int, int]] = {}  # of a device of a session
        self.lies_on: dict[int, dict[tuple[int, int], None]] = {}  # an executable

    def before(self, event: events.Event) -> None:
        if isinstance(event, events.SliceRequested):
            self.wishes[event.session, event.slice_id] = event
        elif isinstance(event, events.CompileRequested):
            owned = [self.slice_of.get((event.session, device)) for device in event.devices]
            self.lies_on[event.executable_id] = {key: None for key in owned if key is not None}
        elif isinstance(event, events.SessionClosed):
            self.forget(event.session)

    def forget(self, session: int) -> None:
        """What an ended session has, it gives back."""
        for holders in (self.holders, self.asleep):
            for key in [key for key in holders if key[0] == session]:
                del holders[key]

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, out.LeaseEnded):
                self.forget(effect.session)
            if isinstance(effect, out.SendToSession) and isinstance(effect.reply, out.SliceAdded):
                key = (int(effect.session), effect.reply.slice_id)
                self.slice_of.update(((effect.session, device), key) for device in effect.reply.devices)
            if isinstance(effect, out.Log) and effect.phrase == "slice renumbered":
                self.renumber(dict(effect.fields))
            if isinstance(effect, out.Log) and effect.phrase in _CHANGES:
                self.look()
                fields = dict(effect.fields)
                key = (int(fields["session"]), int(fields["slice"]))
                if effect.phrase == "slice moved" and self.holders.pop(key, None) is None and key not in self.asleep:
                    self.violate(f"slice {key} was moved and nobody held it")
                if effect.phrase == "slice suspended":
                    self.asleep[key] = self.holders.pop(key)
                elif effect.phrase == "slice released" and key in self.asleep:
                    del self.asleep[key]
                elif effect.phrase != "slice released":
                    self.asleep.pop(key, None)
                    self.add(key, plain_name(fields["island"]), tuple(map(int, fields["positions"].split(","))))
                elif self.holders.pop(key, None) is None:
                    self.violate(f"slice {key} was given back and nobody held it")

    def renumber(self, fields: dict[str, str]) -> None:
        """Its devices have other positions, as all of its island have in this step."""
        key = (int(fields["session"]), int(fields["slice"]))
        holders = self.holders if key in self.holders else self.asleep
        island, positions, exclusive = holders[key]
        renumbered = tuple(map(int, fields["positions"].split(",")))
        if island != plain_name(fields["island"]) or len(set(renumbered)) != len(positions):
            self.violate(f"slice {key} on {positions} of island {island} was renumbered to {fields}")
        holders[key] = (island, renumbered, exclusive)

    def granted(self, grant: Grant) -> None:
        """A slice is not given back before the work on it that was asked for earlier."""
        for executable in grant.executables:
            for key in self.lies_on.get(executable, ()):
                self.look()
                if key not in self.holders:
                    self.violate(f"{grant} lies on slice {key}, which was given back")

    def at_end(self) -> None:
        self.look()
        if self.holders:
            self.violate(f"nobody gave back {list(self.holders)}")

    def add(self, key: tuple[int, int], island: str, positions: tuple[int, ...]) -> None:
        exclusive = self.wishes[key].exclusive
        self.check_shape(key, island, positions)
        if len(set(positions)) != len(positions) or not all(0 <= position < self.cluster.sizes[island] for position in positions):
            self.violate(f"slice {key} got devices {positions} of island {island}")
        for (session, number), (other, held, alone) in self.holders.items():
            if session != key[0] and other == island and set(held) & set(positions) and (alone or exclusive):
                self.violate(f"slice {key} shares devices with slice {number} of session {session}")
        self.holders[key] = (island, positions, exclusive)

    def check_shape(self, key: tuple[int, int], island: str, positions: tuple[int, ...]) -> None:
        """Neighbours in the wanted shape are neighbours on the island."""
        shape = self.wishes[key].mesh_shape
        at = dict(zip(product(*map(range, shape)), positions, strict=True)) if shape else {}
        for cell, position in at.items():
            for dimension in range(len(shape)):
                after = (*cell[:dimension], cell[dimension] + 1, *cell[dimension + 1 :])
                if after in at and self.apart(island, position, at[after]) != 1:
                    self.violate(f"slice {key} got {positions} of island {island} as {shape}")

    def apart(self, island: str, one: int, other: int) -> int:
        """How many steps two devices are from one another: two hosts lie one above the other, others in a line."""
        if self.cluster.sizes[island] != 2 * self.cluster.devices:
            return abs(one - other)
        (row, column), (row_of_other, column_of_other) = divmod(one, self.cluster.devices), divmod(other, self.cluster.devices)
        return abs(row - row_of_other) + abs(column - column_of_other)
