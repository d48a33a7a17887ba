"""What goes the fast way. Kept apart from it, as importing `pathways` loads neither NumPy nor messages."""

from __future__ import annotations

# Below it a call costs more than the bytes.
LARGE_BYTES = 1 << 20
# Arrays of one call, each with a descriptor that is open meanwhile.
CALL_MAX = 32
