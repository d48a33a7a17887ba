"""What a rule about shares is: a class that is shown what is asked for, granted and told while tenants compete."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tests.simulation.sim_devices import Devices, Gang
    from tests.simulation.sim_shares import Contest, Granted, Session


class ShareRule:
    """One rule. Of the methods a rule has what it needs."""

    name: ClassVar[str]

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.world = contest.world

    def opens(self) -> None:
        """A phase begins: until it closes, the same tenants keep work in line, with the same weights, classes and policy."""

    def opened(self) -> None:
        """Everybody who takes part has asked for something."""

    def closes(self) -> None:
        """The phase is over; nothing has changed yet."""

    def asked(self, session: Session) -> None:
        """The session is about to ask for something more."""

    def granted(self, island: Devices, granted: Granted) -> None:
        """Something was granted; when it runs on the devices is known."""

    def told(self, island: Devices, index: int, gang: Gang, row: bool) -> None:
        """A host is about to report a gang. `row`: it tells when the gang ran."""

    def at_end(self) -> None:
        """Everything has ended."""

    def look(self) -> None:
        """Counts that the rule was applied to something."""
        self.world.look(self.name)

    def violate(self, text: str) -> None:
        """The rule is broken: ends the seed."""
        self.world.violate(self.name, text)
