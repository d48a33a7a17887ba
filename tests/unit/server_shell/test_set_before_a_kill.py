"""A controller that goes on after a kill holds by what is set now, whatever its core knew of it when it was killed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from pathways_common.model.ids import HostName, IslandName
from pathways_server.app import App
from pathways_server.config import Config
from pathways_server.core import events
from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_events import Death
from pathways_server.core.tenant_records import Declared, TenantName
from pathways_server.shell.journal import ProgramRow

from tests.unit.server_shell.test_registered_programs_stay import one_node

ADS, SEARCH = TenantName("ads"), TenantName("search")
KNOWN = Death("program", "step", ADS, "a0", "signal 11", 1)


async def life(path: Path, then: Any, **settings: Any) -> None:
    app = App(Config(listen="127.0.0.1:0", state_dir=path, metrics_port=-1, **settings))
    await app.start()
    running = asyncio.create_task(app.run())
    try:
        then(app)
    finally:
        app.stop("the test is over")
        await running


def test_settings_policies_and_programs_are_those_of_now(tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def first(app: App) -> None:
        app.loop.post((events.HostJoined(HostName("a0"), IslandName("a"), 1, 1, "127.0.0.1:1", 1, 0),))
        app.loop.post((events.DeathsRestored((KNOWN,)),))
        app._tenants.add_death(KNOWN)
        app.loop.settle()
        state = app.loop.core.state
        assert (state.tenants[ADS].declared.weight, state.islands[IslandName("a")].ground.policy) == (4, Policy.PRIORITY)
        # Written, and the controller is killed before its core has stepped it to the end.
        app._tenants.add_death(KNOWN._replace(time_ns=2))
        app._journal.keep_program(ProgramRow("ads", "step", 1, one_node().SerializeToString(), ()), {})
        shutil.copytree(tmp_path / "first", killed)

    def second(app: App) -> None:
        app.loop.settle()
        state = app.loop.core.state
        assert HostName("a0") in state.hosts, "it did not go on"
        assert state.islands[IslandName("a")].ground.policy is Policy.FIFO
        assert state.tenants[ADS].declared == Declared()
        assert state.tenants[SEARCH].declared.weight == 2
        assert app._journal.kept_programs() == []
        assert app._tenants.deaths() == (KNOWN,)

    asyncio.run(life(tmp_path / "first", first, tenants={ADS: {"weight": "4"}}, policy="priority"))
    asyncio.run(life(killed, second, tenants={SEARCH: {"weight": "2"}}, policy="fifo"))
