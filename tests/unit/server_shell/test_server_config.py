"""Defaults give way to the file, the file to the environment, the environment to flags; mistakes are one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_common.process.state import default_state_dir
from pathways_server.config import parse_arguments


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('listen = "0.0.0.0:1"\nmetrics_port = 2\nlease_s = 5\nauth = false\n[hosts_per_island]\na = 2\n')
    environment = {
        "PATHWAYS_SERVER_METRICS_PORT": "3",
        "PATHWAYS_SERVER_LISTEN": "0.0.0.0:3",
        "PATHWAYS_STATE_DIR": str(tmp_path),
    }
    config = parse_arguments(["--config", str(file), "--listen", "grpc://127.0.0.1:4"], environment)
    assert config.listen == "127.0.0.1:4"
    assert config.metrics_port == 3
    assert config.lease_ns == 5 * 10**9
    assert config.auth is False
    assert dict(config.hosts_per_island) == {"a": 2}
    assert config.default_hosts_per_island == 0
    assert config.state_dir == tmp_path
    assert config.ifrt_port == 0
    assert (config.link_transport, config.link_port) == ("framed", 0)


@pytest.mark.parametrize(
    ("text", "by_name", "default"), [("2", {}, 2), ("a=2,b=1", {"a": 2, "b": 1}, 0), ("*=3, b=1", {"b": 1}, 3)]
)
def test_hosts_per_island_is_a_number_or_a_mapping(text: str, by_name: dict[str, int], default: int) -> None:
    config = parse_arguments(["--hosts-per-island", text], {})
    assert (dict(config.hosts_per_island), config.default_hosts_per_island) == (by_name, default)


@pytest.mark.parametrize(
    ("arguments", "by_name", "default"),
    [
        ([], {}, "proportional_share"),
        (["--policy", "priority"], {}, "priority"),
        (["--policy", "a=fifo, b=priority"], {"a": "fifo", "b": "priority"}, "proportional_share"),
        (["--policy", "priority, a=fifo"], {"a": "fifo"}, "priority"),
    ],
)
def test_a_policy_is_for_all_islands_or_by_name(arguments: list[str], by_name: dict[str, str], default: str) -> None:
    config = parse_arguments(arguments, {})
    assert (dict(config.island_policies), config.policy) == (by_name, default)


def test_deadlines_for_stuck_hosts_and_long_programs_are_seconds_and_0_is_never() -> None:
    config = parse_arguments([], {})
    assert (config.stuck_ns, config.long_ns) == (10 * 10**9, 600 * 10**9)
    config = parse_arguments(["--stuck-after-s", "2"], {"PATHWAYS_SERVER_LONG_AFTER_S": "0"})
    assert (config.stuck_ns, config.long_ns) == (2 * 10**9, 0)


def test_what_a_loss_may_take_is_seconds() -> None:
    assert parse_arguments(["--rescue-s", "7", "--reform-pause-s", "3"], {}).rescue_ns == 7 * 10**9
    assert parse_arguments(["--rescue-s", "0", "--reform-pause-s", "3"], {}).reform_pause_ns == 3 * 10**9
    assert parse_arguments(["--rescue-s", "0"], {}).rescue_ns == 0
    with pytest.raises(PathwaysError, match="rescue_s is '31' on the command line; it must be a whole number from 0 to 30"):
        parse_arguments(["--rescue-s", "31"], {})


def test_shapes_of_islands_are_a_text_or_a_table(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[island_shapes]\na = [2, 2]\nb = "2x2x2"\n')
    assert dict(parse_arguments(["--config", str(file)], {}).island_shapes) == {"a": (2, 2), "b": (2, 2, 2)}
    assert dict(parse_arguments(["--island-shapes", "a=4, b=2x2"], {}).island_shapes) == {"a": (4,), "b": (2, 2)}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "nowhere"], "listen is 'nowhere' on the command line; it must be HOST:PORT"),
        (["--metrics-port", "x"], "metrics_port is 'x' on the command line; it must be a whole number from -1 to 65535"),
        (
            ["--hosts-per-island", "a=-1"],
            "hosts_per_island is '-1' on the command line; it must be a whole number from 0 to 4096",
        ),
        (
            ["--policy", "a=fair"],
            "policy is 'fair' on the command line; it must be one of fifo, proportional_share, priority, alone or by island like"
            " a=fifo,b=priority",
        ),
        (
            ["--island-shapes", "a=2x0"],
            "island_shapes is 'a=2x0' on the command line; it must be like a=2x2,b=2x2x2, with one to three sizes from 1 to 4096",
        ),
        (["--link-transport", "tcp"], "link_transport is 'tcp' on the command line; it must be framed or grpc"),
        (["--link-port", "-1"], "link_port is '-1' on the command line; it must be a whole number from 0 to 65535"),
        (
            ["--ifrt-tenant", "a b"],
            "ifrt_tenant is 'a b' on the command line; it must be the name of a tenant:"
            " 1 to 64 letters, digits, '-', '_' and '.', the first a letter or digit",
        ),
        (["--audit-lines", "0"], "audit_lines is '0' on the command line; it must be a whole number from 1 to 1000000"),
        (["--config", "/nowhere.toml"], "the configuration file /nowhere.toml cannot be read (No such file or directory)"),
    ],
)
def test_a_mistake_is_one_sentence_that_says_where(arguments: list[str], sentence: str) -> None:
    with pytest.raises(PathwaysError) as caught:
        parse_arguments(arguments, {})
    assert caught.value.failure.message == sentence


@pytest.mark.parametrize("value", ['""', '" "', "5"])
def test_a_state_directory_that_is_no_path_is_refused_and_not_the_current_one(tmp_path: Path, value: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(f"state_dir = {value}\n")
    with pytest.raises(PathwaysError, match="it must be the path of a directory"):
        parse_arguments(["--config", str(file)], {})
    with pytest.raises(PathwaysError, match="it must be the path of a directory"):
        parse_arguments(["--state-dir", ""], {})


def test_an_empty_variable_names_no_state_directory() -> None:
    assert parse_arguments([], {"PATHWAYS_STATE_DIR": ""}).state_dir == default_state_dir().path


def test_an_unknown_setting_in_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("listne = 1\n")
    with pytest.raises(PathwaysError, match="unknown setting 'listne'; known are listen"):
        parse_arguments(["--config", str(file)], {})


def test_tenants_are_declared_in_tables_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[tenants.ads]\nweight = 4\nmax_memory = "2GiB"\nover = "fail"\n[tenants.web]\n')
    assert parse_arguments(["--config", str(file)], {}).tenants == {
        "ads": {"weight": "4", "max_memory": "2GiB", "over": "fail"},
        "web": {},
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tenants = 3", "tenants is 3 in {file}; it must be tables such as [tenants.ads] with weight = 4"),
        ("[tenants.ads]\nweigth = 3", "a tenant has no setting 'weigth' (of tenant 'ads' in {file}); it has weight, priority,"),
        (
            "[tenants.ads]\nweight = true",
            "the setting weight is True (of tenant 'ads' in {file}); it must be a whole number from 1",
        ),
        ('[tenants.ads]\npriority = "top"', "the setting priority is 'top' (of tenant 'ads' in {file}); it must be low, normal"),
        ('[tenants."a b"]\nweight = 1', "tenants is 'a b' in {file}; it must be the name of a tenant"),
    ],
)
def test_a_mistake_in_a_tenants_table_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(PathwaysError) as caught:
        parse_arguments(["--config", str(file)], {})
    assert caught.value.failure.message.startswith(sentence.format(file=file))
