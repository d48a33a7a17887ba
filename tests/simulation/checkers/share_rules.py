"""The rules about shares, of `sim_shares`, by name.

Each goes by what the simulated devices did and by what was asked of the core.
"""

from __future__ import annotations

from tests.simulation.checkers.preemption import Preemption
from tests.simulation.checkers.share_rule import ShareRule
from tests.simulation.checkers.shares import Shares
from tests.simulation.checkers.spent import Spent
from tests.simulation.checkers.starvation import Starvation

RULES: tuple[type[ShareRule], ...] = (Shares, Starvation, Spent, Preemption)
