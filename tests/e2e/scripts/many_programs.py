"""COUNT different programs, each run when it is new and all of them once more; says `right` if every value was."""

import sys

import jax
import numpy as np

count = int(sys.argv[1])


def program(number):
    # The number is part of the text, so that no two are equal.
    return jax.jit(lambda x: x * (number + 2) + number)


programs = [program(number) for number in range(count)]
x = jax.device_put(np.arange(4, dtype=np.int32))
for _ in range(2):
    for number, each in enumerate(programs):
        assert np.asarray(each(x)).tolist() == [value * (number + 2) + number for value in range(4)], number
print("right", flush=True)
sys.stdin.readline()
