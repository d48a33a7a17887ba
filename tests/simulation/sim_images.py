"""Images on a simulated host: the project's own decisions about them, and bytes that say what they were compiled from.

An executor that is given an image of another program, or for another spread of devices over hosts, breaks a rule, and so does
pulling an image again that an executor died of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, assert_never

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName
from pathways_common.model.image import KeptImage
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_worker.core import images

from tests.simulation.sim_fused import parse

if TYPE_CHECKING:
    from tests.simulation.sim_executor import Executor
    from tests.simulation.sim_host import SimHost

COMPILER = "sim"


def compile_once(seed: int) -> tuple[str, ...]:
    """On which platforms one host compiles for all; in some seeds everybody compiles for itself."""
    return ("cpu",) if Random(f"compile once {seed}").random() < 0.2 else ()


def loaded_most(seed: int) -> int:
    """How many executables an executor keeps loaded; in most seeds as many as there are."""
    draw = Random(f"loaded executables {seed}")
    return draw.choice([2, 3, 5]) if draw.random() < 0.2 else 4096


class HostImages:
    """The daemon's and the executor's side of loading. `compiled` and `reused` count."""

    def __init__(self, host: SimHost) -> None:
        self.host = host
        self.forget()
        self.compiled = self.reused = self.pulled = 0

    def forget(self) -> None:
        """Another daemon."""
        # Few, so that some have to go.
        self.core = images.Images(bytes_max=150)
        self.bytes: dict[str, str] = {}
        self.loads: dict[int, out.Load] = {}
        self.offers: dict[int, str] = {}
        self.arrived = ""
        self.deadly: set[str] = set()

    # ---- commands ----

    def load(self, command: out.Load) -> None:
        self.loads[command.executable_id] = command
        self.step(images.LoadWanted(command.executable_id, command.image_key, command.source is not None))

    def unload(self, command: out.Unload) -> None:
        self.step(images.ExecutablesUnloaded(command.executable_ids))

    def offer(self, command: out.OfferImage) -> None:
        self.offers[command.fetch_id] = command.key

    def executor_changed(self) -> None:
        self.step(images.ExecutorChanged())
        self.loads.clear()

    def executor_died(self) -> None:
        kept = set(self.bytes)
        self.step(images.ExecutorDied())
        self.deadly |= kept - set(self.bytes)

    # ---- effects ----

    def step(self, event: images.Event) -> None:
        for effect in self.core.step(event):
            match effect:
                case images.Forward(executable_id, key):
                    if executable_id in self.loads:
                        self.forward(self.loads[executable_id], self.bytes[key] if key else None)
                    else:
                        self.host.world.violate("images", f"{self.host.name}: a Load of an earlier executor went on")
                case images.Pull(executable_id, key):
                    if key in self.deadly:
                        self.host.world.violate("images", f"{self.host.name}: pulls {key} again, of which an executor died")
                    self.pull(key, self.loads[executable_id])
                case images.Keep(key):
                    self.bytes[key] = self.arrived
                case images.Drop(key):
                    del self.bytes[key]
                case images.Discard(executable_id, unloaded):
                    load = self.loads.pop(executable_id)
                    if unloaded:
                        failure = Failure(Reason.CANCELLED, "unloaded", host=self.host.name)
                        name = HostName(self.host.name)
                        self.host.report(events.ExecutableLoaded(name, load.epoch, executable_id, None, failure))
                case images.Read() | images.Store() | images.Erase():
                    self.host.world.violate("images", f"{self.host.name}: {effect} of a daemon without a folder")
                case _:
                    assert_never(effect)

    def pull(self, key: str, load: out.Load) -> None:
        source = load.source
        assert source is not None
        daemon = self.core

        def take(image: str | None) -> None:
            if self.core is not daemon:
                return
            if image is not None and digest_of(image) != source.digest:
                image = None
            self.pulled += image is not None
            self.arrived = image or ""
            self.step(images.ImagePulled(key, len(self.arrived)))

        if self.host.cluster.faults.transfer_fails(self.host.name):
            self.host.world.soon(lambda: take(None), 0.1, 50)
            return
        giver = self.host.cluster.hosts[source.host].images
        self.host.world.soon(lambda: giver.serve(source.fetch_id, take), 0.1, 2 * self.host.slow)

    def serve(self, fetch_id: int, take: Callable[[str | None], None], tries: int = 40) -> None:
        """Somebody pulls, maybe before the offer has come."""
        key = self.offers.pop(fetch_id, None)
        if key is None and tries and self.host.up:
            self.host.world.after(50_000_000, lambda: self.serve(fetch_id, take, tries - 1))
            return
        held = key is not None and self.core.holds(key)
        image = self.bytes[key] if held and key is not None else None
        self.host.world.soon(lambda: take(image), 0.1, 2 * self.host.slow)

    # ---- the executor ----

    def forward(self, load: out.Load, image: str | None) -> None:
        executor = self.host.executor
        if executor is None or not executor.alive or load.epoch != executor.epoch:
            self.host.world.violate("images", f"{self.host.name}: a Load of epoch {load.epoch} came when its executor was gone")
            return
        executor.loader.put(load, image)

    def failure_of(self, executor: Executor, load: out.Load, image: str | None) -> Failure | None:
        """How a load ends on the executor."""
        own = compiled(load.program, load.devices, executor.per_host)
        self.host.world.look("images")
        if image is not None and image != own:
            self.host.world.violate("images", f"{self.host.name}: {load.image_key} came with the image {image!r}, not {own!r}")
        program = parse(load.program)
        return Failure(Reason.COMPILE_ERROR, "broken program", host=self.host.name) if program.broken else None

    def loaded(self, executor: Executor, load: out.Load, image: str | None, failure: Failure | None) -> None:
        """Answers it, whether anybody wants it still or not."""
        reused = image is not None and not self.host.cluster.faults.strikes("useless image", 0.5)
        self.compiled += failure is None and not reused
        self.reused += reused
        made = compiled(load.program, load.devices, executor.per_host)
        self.arrived = "" if failure or reused or not load.image_key else made
        known = self.loads.pop(load.executable_id, None)
        self.step(images.LoadAnswered(load.executable_id, len(self.arrived), reused))
        kept = None
        if known is not None and self.core.holds(load.image_key):
            data = self.bytes[load.image_key]
            kept = KeptImage(len(data), digest_of(data))
        facts = None if failure else parse(load.program).facts()
        name = HostName(self.host.name)
        self.host.report(events.ExecutableLoaded(name, load.epoch, load.executable_id, facts, failure, reused, kept))


def compiled(program: str, devices: tuple[int, ...], per_host: int) -> str:
    """What a compiler makes of a program: it knows how many of its devices share a host, and not which host or device it is."""
    hosts: dict[int, int] = {}
    return f"{program} for {[hosts.setdefault(position // per_host, len(hosts)) for position in devices]}"


def digest_of(image: str) -> bytes:
    return hashlib.sha256(image.encode()).digest()
