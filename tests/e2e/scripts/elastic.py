"""Trains as examples/elastic_training.py does and waits before some steps: `elastic.py STEPS STEP[,STEP...] [ISLAND]`.

With an island it uses one device of it, which it asks for as a slice.

Tells then at which step it is and on how many devices, and goes on with a line from stdin. The line `grow` makes it wait first
until all of its devices are there. In the end it tells the losses, in hexadecimal, the devices of each step, how often it
restored, and how long steps took in which it did, and others.
"""

import json
import sys
import time
from pathlib import Path

import jax
import pathways as pw

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from elastic_training import batches, first_state, step


def tell(**what):
    print(json.dumps(what), flush=True)


def grow(trainer):
    deadline = time.monotonic() + 90
    while len(trainer.devices) < jax.device_count():
        assert time.monotonic() < deadline, f"{len(trainer.devices)} devices are there"
        trainer.grow()
        time.sleep(0.05)


steps, pauses = int(sys.argv[1]), {int(word) for word in sys.argv[2].split(",")}
slices = [pw.make_virtual_device_set().add_slice(devices=1, island=sys.argv[3])] if sys.argv[3:] else None
trainer = pw.elastic(step, snapshot_every=7, devices=slices)
state, losses, devices, calm_s, slowest_s = first_state(0), [], [], [], []
for number, batch in enumerate(batches(steps, 0), 1):
    if number in pauses:
        tell(at=number, devices=len(trainer.devices), restored=trainer.restored)
        if input() == "grow":
            grow(trainer)
            tell(grown=len(trainer.devices))
    began, restored = time.monotonic(), trainer.restored
    state, loss = trainer(state, batch)
    (calm_s if trainer.restored == restored else slowest_s).append(time.monotonic() - began)
    losses.append(float(loss).hex())
    devices.append(len(trainer.devices))
tell(
    losses=losses, devices=devices, restored=trainer.restored, median_s=sorted(calm_s)[len(calm_s) // 2],
    slowest_s=[round(seconds, 2) for seconds in slowest_s],
)  # fmt: skip
