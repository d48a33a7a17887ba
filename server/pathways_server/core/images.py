"""Which host keeps which image: what was compiled once for a kind of devices is loaded elsewhere without compiling.

An image's key names all that was compiled but the compiler: the content of program and options, and how the devices lie on hosts.
Which hosts and devices they are does not count; a tenant with executors of its own loads only what these compiled. A host
without the image is told of one that has it, if both have the same compiler; the bytes go from host to host. What is known here
may be out of date: then the host compiles, as it would without.

Where nobody has it, one member of those with one compiler is told to load, and the others when it has answered: it compiles, they
pull. Which one it is follows from the key, so that many programs are spread over the hosts. If it dies, the epoch ends with it.
"""

from __future__ import annotations

from itertools import groupby
from zlib import crc32

from pathways_common.model.ids import FetchId, HostName

from .effects import ImageSource, Load, OfferImage
from .events import ExecutableLoaded
from .records import Executable, Host
from .state import State


def key_of(executable: Executable) -> str:
    """Of an executable with a bound placement; empty if it has no image: a callback is tied to its client."""
    if executable.callback_ids:
        return ""
    numbers: dict[str, int] = {}
    hosts = [numbers.setdefault(place.host.name, len(numbers)) for place in executable.placement.shards]
    shape = ".".join(f"{number}x{len(list(run))}" for number, run in groupby(hosts))
    tenant = executable.placement.island.tenant
    return f"{executable.program}/{shape}" + (f"/{tenant}" if tenant else "")


def send_loads(state: State, executable: Executable) -> None:
    """Sends Load to every member but those that wait until another one has compiled."""
    key = key_of(executable)
    executable.untold = _waiting(state, executable, key)
    _tell(state, executable, key, [host for host in executable.members if host.name not in executable.untold])


def _waiting(state: State, executable: Executable, key: str) -> dict[HostName, Host]:
    """Members that need not be told yet. On accelerators the members of a gang tune what they compile together."""
    members = executable.members
    if not key or len(members) == 1 or executable.placement.island.platform not in state.config.compile_once_platforms:
        return {}
    alike: dict[str, list[Host]] = {}  # by compiler
    for host in members:
        alike.setdefault(host.compiler, []).append(host)
    kept_by = {state.hosts[name].compiler for name in state.images.get(key, {})}
    waiting: dict[HostName, Host] = {}
    for compiler, hosts in alike.items():
        if compiler and compiler not in kept_by:
            first = hosts[crc32(key.encode()) % len(hosts)]
            waiting.update((host.name, host) for host in hosts if host is not first)
    return waiting


def _tell(state: State, executable: Executable, key: str, hosts: list[Host]) -> None:
    """What several of them get alike is one object, and is encoded once."""
    island = executable.placement.island
    positions = executable.placement.positions
    alike = Load(executable.id, executable.program, positions, executable.callback_ids, island.epoch, key)
    for rank, host in enumerate(hosts):
        host.loads[executable.id] = executable
        source = _source(state, key, host, rank)
        if source is None:
            state.tell(host, alike)
            continue
        state.tell(state.hosts[source.host], OfferImage(key, source.fetch_id, source.timeout_ns))
        state.tell(host, Load(executable.id, executable.program, positions, (), island.epoch, key, source))


def _source(state: State, key: str, host: Host, rank: int) -> ImageSource | None:
    """A host to pull from; None if this one has the image, or nobody like it. Members of a gang spread over those there are."""
    holders = state.images.get(key, {})
    if host.name in holders or not host.compiler:
        return None
    # The last to keep it is the least likely to have dropped it.
    names = [name for name in reversed(holders) if state.hosts[name].compiler == host.compiler]
    if not names:
        return None
    name = names[rank % len(names)]
    kept = holders[name]
    return ImageSource(name, FetchId(state.number()), kept.size_bytes, kept.digest, state.config.image_pull_ns)


def on_loaded(state: State, host: Host, executable: Executable, event: ExecutableLoaded) -> None:
    """Counts, and remembers what the host keeps."""
    if event.failure is not None:
        return
    if event.reused:
        host.executables_reused += 1
    else:
        host.executables_compiled += 1
    key = key_of(executable)
    if not key:
        return
    holders = state.images.pop(key, {})
    holders.pop(host.name, None)
    if event.kept is not None:
        holders[host.name] = event.kept
    if holders:
        # Last: the longest unused is the first to go.
        state.images[key] = holders
        if len(state.images) > state.config.images_max:
            del state.images[next(iter(state.images))]


def go_on(state: State, executable: Executable, host: Host) -> None:
    """One member has loaded: those that waited for it load now, with its image if there is one."""
    hosts = [other for other in executable.untold.values() if other.compiler == host.compiler]
    for other in hosts:
        del executable.untold[other.name]
    _tell(state, executable, key_of(executable), hosts)


def on_host_lost(state: State, host: Host) -> None:
    """What it keeps it may still have when it comes back; then it says so."""
    for key, holders in list(state.images.items()):
        if holders.pop(host.name, None) is not None and not holders:
            del state.images[key]
