"""Whose jaxlib is not served is told so by its first call in one sentence, before anything that its JAX may not have."""

from __future__ import annotations

from typing import cast

import pathways as pw
import pytest
from pathways import _jax, _plugin, errors
from pathways._door import Door
from pathways_common.model.jaxlibs import CLIENT_JAXLIBS, unserved_client, unusable_on_host


def test_clients_with_the_listed_versions_are_served_and_no_others() -> None:
    assert [unserved_client(f"{minor}.7") for minor in CLIENT_JAXLIBS] == ["", "", ""]
    assert unserved_client("") == ""
    for other in ("0.7.2", "0.11.0", "1.8.0", "0.80.1"):
        assert unserved_client(other) == (
            f"the client has jaxlib {other}, and Pathways serves clients with jaxlib 0.8, 0.9 or 0.10: "
            "install one of these, and its jax"
        )


@pytest.mark.parametrize("version", ["0.10.2", "0.10.3", "0.10.10", "0.10.2.dev20260601"])
def test_hosts_compute_with_the_newest(version: str) -> None:
    assert unusable_on_host(version) == ""


@pytest.mark.parametrize("version", ["0.9.2", "0.10.0", "0.10.1", "0.11.0", "1.10.2"])
def test_hosts_compute_with_nothing_else(version: str) -> None:
    assert unusable_on_host(version) == (
        f"this host has jaxlib {version}, and workers compute with 0.10 from 0.10.2 on: install jax and jaxlib 0.10.2 here"
    )
    assert unusable_on_host("").startswith("this host has no jaxlib, and workers compute with 0.10 from 0.10.2 on: install")


def test_the_first_call_of_another_version_is_refused_and_nothing_of_jax_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    factories = []
    monkeypatch.setattr(_jax, "jaxlib_version", lambda: "0.7.2")
    monkeypatch.setattr(_jax, "platforms", lambda: ["proxy", "cpu"])
    monkeypatch.setattr(_jax, "register", factories.append)
    for name in ("wrap_compile", "wrap_put", "set_option", "report_failed_effects_once"):
        monkeypatch.delattr(_jax, name)
    _plugin.initialize()
    assert not _plugin.is_active()
    with pytest.raises(errors.VersionMismatchError, match=r"jaxlib 0\.7\.2, and Pathways serves clients with") as caught:
        factories[0]()
    assert caught.value.at_start
    with pytest.raises(errors.VersionMismatchError, match="and Pathways serves"):
        _plugin.slice_calls()


def test_a_door_that_runs_already_is_not_taken_for_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jax, "jaxlib_version", lambda: "0.11.0")
    monkeypatch.delattr(_jax, "register")
    with pytest.raises(errors.VersionMismatchError, match=r"jaxlib 0\.11\.0, and Pathways serves clients with") as caught:
        _plugin.activate(None, cast(Door, object()))
    assert caught.value.at_start
    assert not _plugin.is_active()


@pytest.mark.parametrize(("version", "can"), [("0.8.3", False), ("0.9.0", True), ("0.10.2", True)])
def test_the_mover_is_asked_from_0_9_on(monkeypatch: pytest.MonkeyPatch, version: str, can: bool) -> None:
    monkeypatch.setattr(_jax, "jaxlib_version", lambda: version)
    assert _jax.can_ask_to_move() is can


def test_programs_of_an_older_client_are_refused_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jax, "jaxlib_version", lambda: "0.9.2")
    with pytest.raises(errors.VersionMismatchError, match=r"pw.program needs jaxlib 0\.10 at the client, which has 0\.9\.2"):
        pw.program(lambda x: x)
    with pytest.raises(errors.VersionMismatchError, match=r"pw.program needs jaxlib"):
        pw.program(fuse=False)
