"""Settings of the controller, read once: defaults, then the TOML file, then the environment, then flags.

Names are the same everywhere: `metrics_port` in the file, PATHWAYS_SERVER_METRICS_PORT, --metrics-port.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pathways_common.model.bounds import GRACE_NS, ORPHAN_NS
from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.topology import SIZE_MAX, parse_topology
from pathways_common.process.state import default_state_dir
from pathways_common.rpc.channels import parse_address

from pathways_server.shell.tenant_settings import TENANT_NAME, TENANT_NAME_WANTED, checked

_KEYS = (
    "listen", "state_dir", "metrics_port", "auth", "hosts_per_island", "lease_s", "grace_s", "ifrt_port", "island_shapes",
    "link_transport", "link_port", "ifrt_tenant", "tenants", "audit_lines", "usage_days", "policy", "stuck_after_s",
    "long_after_s", "orphan_s", "loaded_executables", "reform_pause_s", "rescue_s",
)  # fmt: skip
# What history the journal keeps at most: lines for people to read, and rows of every tenant and day.
_HISTORY_MAX = 1_000_000
_TRANSPORTS = ("framed", "grpc")
_POLICIES = ("fifo", "proportional_share", "priority")
_DEFAULT_POLICY = "proportional_share"
EVERY_ISLAND = "*"
COMMAND_LINE = "on the command line"


@dataclass(frozen=True, slots=True)
class Config:
    """`hosts_per_island`: hosts an island waits for by name; `default_hosts_per_island` for others; 0 = whoever is there.

    `metrics_port`: 0 = any free port, -1 = none. `ifrt_port`: 0 = no door of the controller's own. `link_transport`: what workers
    are offered, "framed" or "grpc"; `link_port`: where, for "framed"; 0 = any free port. `ifrt_tenant`: whose sessions the
    clients of the controller's own door open. `tenants`: settings by tenant, checked texts. `audit_lines` and `usage_days`: how
    much of both the journal keeps. `orphan_ns`: how long workers and doors wait for a controller that is gone, and whether one
    that is started again goes on with their work; 0 = neither. `stuck_ns`: how long a member of a gang may keep the others
    waiting, `long_ns`: how long any gang may take that takes ten times as long as before; 0 = for ever.
    `island_policies`: how islands order the work of tenants, by name; `policy` for others; `policies_insisted`: islands for
    which the command line says so, which wins over what was set at run time; "*" = all. `loaded_executables`: of each executor.
    `reform_pause_ns`: the longest pause before an island that is lost again soon is formed again; at once if it held for as long.
    `rescue_ns`: how long hosts get to put away what outlives the loss of another one; 0 = nothing does.
    """

    listen: str = "127.0.0.1:29000"
    state_dir: Path = field(default_factory=lambda: default_state_dir().path)
    metrics_port: int = 0
    auth: bool = True
    hosts_per_island: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    default_hosts_per_island: int = 0
    lease_ns: int = 30 * 10**9
    grace_ns: int = GRACE_NS
    orphan_ns: int = ORPHAN_NS
    ifrt_port: int = 0
    island_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    link_transport: str = "framed"
    link_port: int = 0
    ifrt_tenant: str = "default"
    tenants: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    audit_lines: int = 10_000
    usage_days: int = 400
    stuck_ns: int = 10 * 10**9
    long_ns: int = 600 * 10**9
    policy: str = _DEFAULT_POLICY
    island_policies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    policies_insisted: tuple[str, ...] = ()
    loaded_executables: int = 4_096
    reform_pause_ns: int = 15 * 10**9
    rescue_ns: int = 2 * 10**9

    @property
    def listen_host(self) -> str:
        """The address part of `listen`."""
        return self.listen.rpartition(":")[0]


def parse_arguments(arguments: list[str], environment: Mapping[str, str]) -> Config:
    """The configuration of this start; raises PathwaysError (INVALID_ARGUMENT) with one sentence."""
    parser = argparse.ArgumentParser(prog="pathways-server", description="The controller of a Pathways cluster.")
    parser.add_argument("--config", metavar="FILE", help="a TOML file with the settings below")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to serve (default 127.0.0.1:29000; port 0 = any)")
    parser.add_argument("--state-dir", metavar="DIR", help="token, secret and journal (default ~/.local/state/pathways)")
    parser.add_argument("--metrics-port", metavar="N", help="port of /metrics (default 0 = any free one; -1 = none)")
    parser.add_argument("--no-auth", dest="auth", action="store_const", const="false", help="serve without tokens")
    parser.add_argument(
        "--hosts-per-island", metavar="N|a=N,b=N", help="hosts an island waits for (default 0 = whoever is there)"
    )
    parser.add_argument("--island-shapes", metavar="a=2x2,b=2x2x2", help="how an island's devices lie (default: in a line)")
    parser.add_argument(
        "--policy",
        metavar="NAME|a=NAME,b=NAME",
        help="how islands order the work of tenants: fifo, proportional_share (default) or priority",
    )
    parser.add_argument("--lease-s", metavar="SECONDS", help="how long a session survives without its connection")
    parser.add_argument("--grace-s", metavar="SECONDS", help="how long a host without its connection is waited for (default 5)")
    parser.add_argument(
        "--orphan-s",
        metavar="SECONDS",
        help="how long workers and clients wait for a controller that is gone (default 120; 0 = nothing outlives it)",
    )
    parser.add_argument(
        "--stuck-after-s", metavar="SECONDS", help="how long a stuck host may keep others waiting (default 10; 0 = for ever)"
    )
    parser.add_argument(
        "--long-after-s",
        metavar="SECONDS",
        help="how long a program may run that takes ten times as long as before (default 600; 0 = for ever)",
    )
    parser.add_argument(
        "--loaded-executables", metavar="N", help="compiled programs that an executor keeps loaded at most (default 4096)"
    )
    parser.add_argument(
        "--reform-pause-s",
        metavar="SECONDS",
        help="longest pause before an island that is lost again soon forms again (default 15)",
    )
    parser.add_argument(
        "--rescue-s",
        metavar="SECONDS",
        help="how long hosts get to put arrays away when another of their island is lost (default 2; 0 = they are lost, too)",
    )
    parser.add_argument("--link-transport", metavar="framed|grpc", help="how workers are connected (default framed)")
    parser.add_argument("--link-port", metavar="N", help="port of framed links (default 0 = any free one)")
    parser.add_argument("--ifrt-port", metavar="N", help="also serve clients that have nothing but stock JAX, on 127.0.0.1:N")
    parser.add_argument("--ifrt-tenant", metavar="NAME", help="the tenant of such clients (default: default)")
    parser.add_argument("--audit-lines", metavar="N", help="administrative actions that are remembered (default 10000)")
    parser.add_argument("--usage-days", metavar="N", help="days whose accounts are kept (default 400)")
    flags = {key: value for key, value in vars(parser.parse_args(arguments)).items() if value is not None}
    file = flags.pop("config", None) or environment.get("PATHWAYS_SERVER_CONFIG")
    settings: dict[str, tuple[Any, str]] = {}
    if file:
        settings.update((key, (value, f"in {file}")) for key, value in _read_file(Path(file)).items())
    if environment.get("PATHWAYS_STATE_DIR"):
        settings["state_dir"] = (environment["PATHWAYS_STATE_DIR"], "in PATHWAYS_STATE_DIR")
    for key in _KEYS:
        name = f"PATHWAYS_SERVER_{key.upper()}"
        if name in environment and key != "tenants":  # tables, so only in the file
            settings[key] = (environment[name], f"in {name}")
    settings.update((key, (value, COMMAND_LINE)) for key, value in flags.items())
    return _build(settings)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise fail(
            Reason.INVALID_ARGUMENT, f"the configuration file {path} cannot be read ({error.strerror})", path=path
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise fail(Reason.INVALID_ARGUMENT, f"the configuration file {path} is not TOML: {error}", path=path) from error
    unknown = sorted(values.keys() - set(_KEYS))
    if unknown:
        known = ", ".join(_KEYS)
        raise fail(
            Reason.INVALID_ARGUMENT, f"{path} has the unknown setting {unknown[0]!r}; known are {known}", setting=unknown[0]
        )
    return values


def _build(settings: Mapping[str, tuple[Any, str]]) -> Config:
    values: dict[str, Any] = {}
    for key, (value, where) in settings.items():
        if key == "listen":
            values[key] = _address(value, where)
        elif key == "state_dir":
            values[key] = _directory(value, where)
        elif key == "auth":
            values[key] = _boolean(value, where)
        elif key == "hosts_per_island":
            by_name = _hosts_per_island(value, where)
            values["default_hosts_per_island"] = by_name.pop(EVERY_ISLAND, 0)
            values[key] = MappingProxyType(by_name)
        elif key == "island_shapes":
            values[key] = MappingProxyType(_island_shapes(value, where))
        elif key == "link_transport":
            if value not in _TRANSPORTS:
                raise _wrong(key, value, where, " or ".join(_TRANSPORTS))
            values[key] = value
        elif key == "ifrt_tenant":
            values[key] = _tenant_name(key, value, where)
        elif key == "tenants":
            values[key] = MappingProxyType(_tenants(value, where))
        elif key in ("audit_lines", "usage_days", "loaded_executables"):
            values[key] = _number(key, value, where, 1, _HISTORY_MAX)
        elif key == "policy":
            policies = _policies(value, where)
            values["policies_insisted"] = tuple(policies) if where == COMMAND_LINE else ()
            values[key] = policies.pop(EVERY_ISLAND, _DEFAULT_POLICY)
            values["island_policies"] = MappingProxyType(policies)
        elif key == "lease_s":
            values["lease_ns"] = _number(key, value, where, 1, 86400) * 10**9
        elif key in ("stuck_after_s", "long_after_s"):
            values[key.replace("after_s", "ns")] = _number(key, value, where, 0, 86400) * 10**9
        elif key in ("orphan_s", "grace_s"):
            values[key.removesuffix("s") + "ns"] = _number(key, value, where, 0, 86400) * 10**9
        elif key == "reform_pause_s":  # work waits for an island for a minute
            values["reform_pause_ns"] = _number(key, value, where, 1, 30) * 10**9
        elif key == "rescue_s":
            values["rescue_ns"] = _number(key, value, where, 0, 30) * 10**9
        else:
            values[key] = _number(key, value, where, -1 if key == "metrics_port" else 0, 65535)
    return _checked(Config(**values))


def _checked(config: Config) -> Config:
    lease_s, grace_s = config.lease_ns // 10**9, config.grace_ns // 10**9
    if grace_s > lease_s:
        sentence = f"grace_s is {grace_s} and lease_s {lease_s}: choose a grace of at most the lease"
        raise fail(Reason.INVALID_ARGUMENT, sentence, grace_s=grace_s, lease_s=lease_s)
    return config


def _wrong(key: str, value: object, where: str, wanted: str) -> PathwaysError:
    return fail(Reason.INVALID_ARGUMENT, f"{key} is {value!r} {where}; it must be {wanted}", setting=key, value=value)


def _address(value: object, where: str) -> str:
    try:
        return parse_address(str(value))
    except PathwaysError as error:
        raise _wrong("listen", value, where, "HOST:PORT") from error


def _directory(value: object, where: str) -> Path:
    # An empty path would be the current directory, and secrets would be written there.
    if not isinstance(value, str | Path) or not str(value).strip():
        raise _wrong("state_dir", value, where, "the path of a directory")
    return Path(value).expanduser().absolute()


def _boolean(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "1", "yes", "false", "0", "no"):
        return text in ("true", "1", "yes")
    raise _wrong("auth", value, where, "true or false")


def _number(key: str, value: object, where: str, lowest: int, highest: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = lowest - 1
    if isinstance(value, bool) or not lowest <= number <= highest:
        raise _wrong(key, value, where, f"a whole number from {lowest} to {highest}")
    return number


def _hosts_per_island(value: object, where: str) -> dict[str, int]:
    return {name: _number("hosts_per_island", count, where, 0, 4096) for name, count in _by_island(value)}


def _policies(value: object, where: str) -> dict[str, str]:
    found = {name: str(policy) for name, policy in _by_island(value)}
    for policy in found.values():
        if policy not in _POLICIES:
            raise _wrong("policy", policy, where, f"one of {', '.join(_POLICIES)}, alone or by island like a=fifo,b=priority")
    return found


def _by_island(value: object) -> list[tuple[str, object]]:
    """A setting by island name; the entry "*" stands for every island that is not named."""
    if isinstance(value, Mapping):
        return [(str(name), setting) for name, setting in value.items()]
    if "=" not in str(value):
        return [(EVERY_ISLAND, value)]
    pairs = [part.partition("=") for part in str(value).split(",")]
    return [(name.strip() if equals else EVERY_ISLAND, (setting if equals else name).strip()) for name, equals, setting in pairs]


def _tenant_name(key: str, value: object, where: str) -> str:
    if not isinstance(value, str) or not TENANT_NAME.fullmatch(value):
        raise _wrong(key, value, where, f"the name of a tenant: {TENANT_NAME_WANTED}")
    return value


def _tenants(value: object, where: str) -> dict[str, Mapping[str, str]]:
    """Tables [tenants.NAME] with settings of these tenants."""
    if not isinstance(value, Mapping) or not all(isinstance(settings, Mapping) for settings in value.values()):
        raise _wrong("tenants", value, where, "tables such as [tenants.ads] with weight = 4")
    return {
        _tenant_name("tenants", name, where): MappingProxyType(checked(settings, f"of tenant {name!r} {where}"))
        for name, settings in value.items()
    }


def _island_shapes(value: object, where: str) -> dict[str, tuple[int, ...]]:
    """One to three sizes by island name: a table, or a=2x2,b=2x2x2."""
    wanted = f"like a=2x2,b=2x2x2, with one to three sizes from 1 to {SIZE_MAX}"
    if isinstance(value, Mapping):
        pairs = [
            (str(name), "x".join(map(str, sizes)) if isinstance(sizes, list) else str(sizes)) for name, sizes in value.items()
        ]
    else:
        pairs = [(part.partition("=")[0].strip(), part.partition("=")[2].strip()) for part in str(value).split(",")]
    shapes: dict[str, tuple[int, ...]] = {}
    for name, text in pairs:
        try:
            shapes[name] = parse_topology(text)
        except ValueError:
            raise _wrong("island_shapes", value, where, wanted) from None
        if not name:
            raise _wrong("island_shapes", value, where, wanted)
    return shapes
