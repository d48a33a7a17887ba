"""Secrets of the state directory are private and stable; tokens and addresses are found in the documented order."""

from __future__ import annotations

from pathlib import Path

import pytest
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.process.state import StateDir, default_state_dir, find_address, find_token


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PATHWAYS_TOKEN", "PATHWAYS_TOKEN_FILE", "PATHWAYS_ADDRESS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATHWAYS_STATE_DIR", str(tmp_path / "state"))


def test_secrets_are_private_and_survive_a_second_create(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.create()
    token, secret = state.token(), state.secret()
    state.create()
    assert (state.token(), state.secret()) == (token, secret)
    assert token != secret
    assert len(token) >= 32
    assert state.path.stat().st_mode & 0o777 == 0o700
    assert (state.path / "token").stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in state.path.iterdir()) == ["logs", "secret", "token"]


def test_a_missing_token_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(PathwaysError, match="there is no token in") as caught:
        StateDir(tmp_path).token()
    assert caught.value.failure.reason is Reason.UNAUTHENTICATED


def test_a_state_directory_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PathwaysError, match="choose another with --state-dir"):
        StateDir(tmp_path / "file").create()


def test_the_token_comes_from_variable_then_file_then_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_token() is None
    default_state_dir().create()
    assert find_token() == default_state_dir().token()
    (tmp_path / "file").write_text("from-file\n")
    monkeypatch.setenv("PATHWAYS_TOKEN_FILE", str(tmp_path / "file"))
    assert find_token() == "from-file"
    monkeypatch.setenv("PATHWAYS_TOKEN", "from-variable")
    assert find_token() == "from-variable"


def test_a_token_file_that_cannot_be_read_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATHWAYS_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(PathwaysError, match="PATHWAYS_TOKEN_FILE names"):
        find_token()


def test_the_address_comes_from_argument_then_variable_then_cluster_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PathwaysError, match="no cluster is known"):
        find_address(None)
    state = default_state_dir()
    state.create()
    state.write_cluster({"address": "grpc://127.0.0.1:1"})
    assert find_address(None) == "grpc://127.0.0.1:1"
    monkeypatch.setenv("PATHWAYS_ADDRESS", "grpc://127.0.0.1:2")
    assert find_address(None) == "grpc://127.0.0.1:2"
    assert find_address("grpc://127.0.0.1:3") == "grpc://127.0.0.1:3"
    state.remove_cluster()
    assert state.read_cluster() is None
