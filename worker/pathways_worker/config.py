"""Settings of the worker daemon, read once: defaults, then the TOML file, then the environment, then flags.

Names are the same everywhere: `metrics_port` in the file, PATHWAYS_WORKER_METRICS_PORT, --metrics-port.
"""

from __future__ import annotations

import argparse
import os
import socket
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pathways_common.model.colocated import CALL_TIMEOUT_NS
from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.topology import (
    COORDINATES_WORDS,
    TOPOLOGY_WORDS,
    coordinates_text,
    parse_coordinates,
    parse_topology,
)
from pathways_common.process.state import default_state_dir
from pathways_common.rpc.channels import parse_address

_NUMBERS = {
    "devices": (1, 1024),
    "metrics_port": (-1, 65535),
    "device_memory": (0, 1 << 60),
    "spill_memory": (0, 1 << 60),
    "spill_disk": (0, 1 << 60),
    "image_disk": (0, 1 << 60),
    "join_timeout_s": (0, 86400),
    "collective_timeout_s": (1, 86400),
    "python_timeout_s": (1, CALL_TIMEOUT_NS // 10**9),
}
_SWITCHES = ("auth", "keep_spare")
_ADDRESSES = ("controller", "data_listen")
_NAMES = ("island", "host")
_PLACE = ("topology", "coordinates", "device_kind")
_LIBRARIES = "ffi_libraries"
_CHOICES = {"thread_placement": ("none", "split"), "thread_scheduling": ("normal", "batch")}
_DIRECTORIES = ("state_dir", "spill_dir", "image_dir")
_KEYS = (*_ADDRESSES, *_NAMES, *_DIRECTORIES, *_PLACE, *_NUMBERS, *_SWITCHES, _LIBRARIES, *_CHOICES)
# May also stand in the file's table `executor`.
_OF_EXECUTORS = {_LIBRARIES, *_CHOICES}
_KIND_CHARACTERS_MAX = 64
# Enough to matter, and not so much that a disk of today is full of it.
SPILL_DISK_BYTES = 10 << 30
# Thousands of programs: an image of a large one has a few megabytes.
IMAGE_DISK_BYTES = 1 << 30


def host_memory_bytes() -> int:
    """Memory that this process may use: the machine's, or less in a container."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(sizes)


@dataclass(frozen=True, slots=True)
class Config:
    """`device_memory`: bytes per device, 0 = no limit. `metrics_port`: 0 = any free port, -1 = none.

    `spill_memory`, `spill_disk`: bytes that spilled buffers may take up in the daemon and in files below `spill_dir` (by default
    `spill` in the state directory); 0 = none.

    `image_disk`: bytes that compiled executables may take up in files below `image_dir` (by default `images` in the state
    directory, which workers of one machine share); 0 = none. They need the cluster's secret: there are none without `auth`.

    `join_timeout_s`: how long the controller is tried for, at the start and after a broken link. `collective_timeout_s`: how long
    XLA waits for the other hosts of a gang. `python_timeout_s`: how long a call of colocated Python may take. `keep_spare`:
    whether a second executor waits, ready, for the next epoch. `coordinates`: one per device, in the island's `topology`;
    `device_kind`: what to call the devices. Empty: not declared. `ffi_libraries`: native code that executors of this host load
    and programs may then call here. `thread_placement`: "split" keeps an executor's dispatcher and its gloo thread on different
    CPUs. `thread_scheduling`: whether threads of executors that wake wait for a core ("batch") or may take it from who runs
    ("normal").
    """

    controller: str
    island: str
    host: str
    devices: int = 1
    data_listen: str = "127.0.0.1:0"
    state_dir: Path = field(default_factory=lambda: default_state_dir().path)
    metrics_port: int = 0
    device_memory: int = 0
    spill_memory: int = field(default_factory=lambda: host_memory_bytes() // 4)
    spill_disk: int = SPILL_DISK_BYTES
    spill_dir: Path | None = None
    image_disk: int = IMAGE_DISK_BYTES
    image_dir: Path | None = None
    join_timeout_s: int = 60
    collective_timeout_s: int = 600
    python_timeout_s: int = CALL_TIMEOUT_NS // 10**9
    keep_spare: bool = True
    auth: bool = True
    topology: tuple[int, ...] = ()
    coordinates: tuple[tuple[int, ...], ...] = ()
    device_kind: str = ""
    ffi_libraries: tuple[Path, ...] = ()
    thread_placement: str = "none"
    thread_scheduling: str = "normal"


def parse_arguments(arguments: list[str], environment: Mapping[str, str]) -> Config:
    """The configuration of this start; raises PathwaysError (INVALID_ARGUMENT) with one sentence."""
    parser = argparse.ArgumentParser(prog="pathways-worker", description="The worker daemon of one host of a Pathways cluster.")
    parser.add_argument("--config", metavar="FILE", help="a TOML file with the settings below")
    parser.add_argument("--controller", metavar="grpc://HOST:PORT", help="the controller to join")
    parser.add_argument("--island", metavar="NAME", help="the island that this host belongs to")
    parser.add_argument("--host", metavar="NAME", help="name of this host in the cluster (default: the machine's name)")
    parser.add_argument("--devices", metavar="D", help="devices of this host (default 1)")
    parser.add_argument("--topology", metavar="AxB", help="how the devices of the island lie (with --coordinates)")
    parser.add_argument("--coordinates", metavar="I,J[:I,J...]", help="where in it those of this host are, device by device")
    parser.add_argument("--device-kind", metavar="KIND", help="what to call the devices (default: as XLA does)")
    parser.add_argument("--data-listen", metavar="HOST:PORT", help="where other hosts and clients reach the data of this one")
    parser.add_argument(
        "--state-dir", metavar="DIR", help="holds the cluster's secret, and logs (default ~/.local/state/pathways)"
    )
    parser.add_argument("--metrics-port", metavar="N", help="port of /metrics (default 0 = any free one; -1 = none)")
    parser.add_argument("--device-memory", metavar="BYTES", help="memory of a device (default 0 = no limit)")
    parser.add_argument("--spill-memory", metavar="BYTES", help="memory for spilled buffers (default a quarter of the host's)")
    parser.add_argument("--spill-disk", metavar="BYTES", help="disk for spilled buffers (default 10 GiB; 0 = none)")
    parser.add_argument("--spill-dir", metavar="DIR", help="where files of spilled buffers go (default: in the state directory)")
    parser.add_argument("--image-disk", metavar="BYTES", help="disk for compiled executables (default 1 GiB; 0 = none)")
    parser.add_argument("--image-dir", metavar="DIR", help="where files of executables go (default: in the state directory)")
    parser.add_argument("--join-timeout", dest="join_timeout_s", metavar="SECONDS", help="how long to try to join (default 60)")
    parser.add_argument(
        "--collective-timeout", dest="collective_timeout_s", metavar="SECONDS", help="how long a gang waits for a host"
    )
    parser.add_argument(
        "--python-timeout", dest="python_timeout_s", metavar="SECONDS", help="how long colocated Python may take (default 300)"
    )
    parser.add_argument(
        "--no-spare", dest="keep_spare", action="store_const", const="false", help="keep no second executor ready"
    )
    parser.add_argument("--ffi-libraries", metavar="PATHS", help="libraries of XLA FFI handlers, separated by colons")
    parser.add_argument(
        "--thread-placement", metavar="HOW", help="none (default), or split: dispatcher and gloo on different CPUs"
    )
    parser.add_argument(
        "--thread-scheduling", metavar="HOW", help="normal (default), or batch: executors that wake take no core from others"
    )
    parser.add_argument("--no-auth", dest="auth", action="store_const", const="false", help="join without the cluster's secret")
    flags = {key: value for key, value in vars(parser.parse_args(arguments)).items() if value is not None}
    file = flags.pop("config", None) or environment.get("PATHWAYS_WORKER_CONFIG")
    settings: dict[str, tuple[Any, str]] = {}
    if file:
        settings.update((key, (value, f"in {file}")) for key, value in _read_file(Path(file)).items())
    if environment.get("PATHWAYS_STATE_DIR"):
        settings["state_dir"] = (environment["PATHWAYS_STATE_DIR"], "in PATHWAYS_STATE_DIR")
    for key in _KEYS:
        name = f"PATHWAYS_WORKER_{key.upper()}"
        if name in environment:
            settings[key] = (environment[name], f"in {name}")
    settings.update((key, (value, "on the command line")) for key, value in flags.items())
    return _build(settings)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        sentence = f"the configuration file {path} cannot be read ({error.strerror})"
        raise fail(Reason.INVALID_ARGUMENT, sentence, path=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise fail(Reason.INVALID_ARGUMENT, f"the configuration file {path} is not TOML: {error}", path=path) from error
    executor = values.get("executor")
    if isinstance(executor, dict) and executor.keys() <= _OF_EXECUTORS:
        values |= values.pop("executor")
    unknown = sorted(values.keys() - set(_KEYS))
    if unknown:
        sentence = f"{path} has the unknown setting {unknown[0]!r}; known are {', '.join(_KEYS)}"
        raise fail(Reason.INVALID_ARGUMENT, sentence, setting=unknown[0])
    return values


def _build(settings: Mapping[str, tuple[Any, str]]) -> Config:
    values: dict[str, Any] = {"host": socket.gethostname().partition(".")[0]}
    for key, (value, where) in settings.items():
        if key in _ADDRESSES:
            values[key] = _address(key, value, where)
        elif key in _NAMES:
            values[key] = _name(key, value, where)
        elif key in _SWITCHES:
            values[key] = _boolean(key, value, where)
        elif key in _NUMBERS:
            values[key] = _number(key, value, where)
        elif key in _PLACE:
            values[key] = _place(key, value, where)
        elif key == _LIBRARIES:
            values[key] = _libraries(value, where)
        elif key in _CHOICES:
            values[key] = _choice(key, value, where)
        else:
            values[key] = _directory(key, value, where)
    for key, example in (("controller", "--controller grpc://HOST:PORT"), ("island", "--island a")):
        if key not in values:
            raise fail(Reason.INVALID_ARGUMENT, f"no {key} is given; start the worker with {example}", setting=key)
    config = Config(**values)
    _check_place(config)
    return config


def _check_place(config: Config) -> None:
    """What one host can know; the controller compares hosts."""
    topology, coordinates = config.topology, config.coordinates
    if bool(topology) != bool(coordinates):
        given, missing = ("topology", "coordinates") if topology else ("coordinates", "topology")
        raise fail(Reason.INVALID_ARGUMENT, f"{given} is given without {missing}; give both, or neither", setting=missing)
    if topology and len(coordinates) != config.devices:
        sentence = f"coordinates has {len(coordinates)} entries and devices is {config.devices}; give one for each device"
        raise fail(Reason.INVALID_ARGUMENT, sentence, setting="coordinates")
    for coordinate in coordinates:
        if len(coordinate) != len(topology) or not all(index < size for index, size in zip(coordinate, topology, strict=True)):
            at, shape = coordinates_text((coordinate,)), "x".join(map(str, topology))
            sentence = f"coordinates holds {at}, which is no place of topology {shape}; give each size an index below it"
            raise fail(Reason.INVALID_ARGUMENT, sentence, setting="coordinates")


def _wrong(key: str, value: object, where: str, wanted: str) -> PathwaysError:
    return fail(Reason.INVALID_ARGUMENT, f"{key} is {value!r} {where}; it must be {wanted}", setting=key, value=value)


def _address(key: str, value: object, where: str) -> str:
    try:
        return parse_address(str(value))
    except PathwaysError as error:
        raise _wrong(key, value, where, "grpc://HOST:PORT" if key == "controller" else "HOST:PORT") from error


def _name(key: str, value: object, where: str) -> str:
    text = value if isinstance(value, str) else ""
    if not text or len(text) > 64 or not all(letter.isalnum() or letter in "-_." for letter in text) or text.startswith("."):
        raise _wrong(key, value, where, "1 to 64 letters, digits, dashes, dots or underscores")
    return text


def _place(key: str, value: object, where: str) -> object:
    """`topology`, `coordinates` or `device_kind`; a file may also have lists of numbers."""
    if key == "device_kind":
        text = value if isinstance(value, str) else ""
        if not text.strip() or len(text) > _KIND_CHARACTERS_MAX or not text.isprintable():
            raise _wrong(key, value, where, f"1 to {_KIND_CHARACTERS_MAX} characters that can be printed")
        return text
    try:
        return parse_topology(_joined(value, "x")) if key == "topology" else parse_coordinates(_joined(value, ":"))
    except ValueError:
        raise _wrong(key, value, where, TOPOLOGY_WORDS if key == "topology" else COORDINATES_WORDS) from None


def _joined(value: object, separator: str) -> str:
    return separator.join(_joined(part, ",") for part in value) if isinstance(value, list) else str(value)


def _directory(key: str, value: object, where: str) -> Path:
    # An empty path would be the current directory.
    if not isinstance(value, str | Path) or not str(value).strip():
        raise _wrong(key, value, where, "the path of a directory")
    return Path(value).expanduser().absolute()


def _libraries(value: object, where: str) -> tuple[Path, ...]:
    names = value.split(os.pathsep) if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise _wrong(_LIBRARIES, value, where, "the paths of libraries")
    paths = tuple(Path(name).expanduser().absolute() for name in names)
    for path in paths:
        if not path.is_file():
            sentence = f"ffi_libraries names {path} {where}, and there is no such file; correct the path or leave it out"
            raise fail(Reason.INVALID_ARGUMENT, sentence, path=path)
    return paths


def _choice(key: str, value: object, where: str) -> str:
    if value not in _CHOICES[key]:
        raise _wrong(key, value, where, " or ".join(_CHOICES[key]))
    return str(value)


def _boolean(key: str, value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "1", "yes", "false", "0", "no"):
        return text in ("true", "1", "yes")
    raise _wrong(key, value, where, "true or false")


def _number(key: str, value: object, where: str) -> int:
    lowest, highest = _NUMBERS[key]
    try:
        number = int(str(value))
    except ValueError:
        number = lowest - 1
    if isinstance(value, bool) or not lowest <= number <= highest:
        raise _wrong(key, value, where, f"a whole number from {lowest} to {highest}")
    return number
