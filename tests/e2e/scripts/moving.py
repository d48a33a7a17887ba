"""A MiB goes to one host, from there to the other, and back to us, over and over; every value is compared. Arguments: rounds.

Prints each round when its values were right.
"""

from __future__ import annotations

import sys

import jax
import numpy as np

first, second = jax.devices()[:2]
for number in range(1, int(sys.argv[1]) + 1):
    sent = np.random.default_rng(number).integers(0, 1 << 30, 1 << 18, np.int32)
    there = jax.device_put(sent, first)
    moved = jax.device_put(there, second)
    assert np.array_equal(np.asarray(moved), sent), f"round {number} gave other numbers"
    print(f"step {number}", flush=True)
print("values right", flush=True)
