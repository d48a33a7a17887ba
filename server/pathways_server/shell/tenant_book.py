"""Who the tenants are and what is set for them: kept in the journal, told to the core, changed by administrators.

What is set at run time wins over the configuration file, setting by setting, and the file over the defaults. A change is in the
journal, with its audit line, before anybody hears of it. Tenants that only the file names have no token until they get one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.process.logs import fields

from pathways_server.core import events
from pathways_server.core.tenant_records import DEFAULT_TENANT, Declared, TenantName
from pathways_server.shell.tenant_journal import Act, TenantJournal
from pathways_server.shell.tenant_settings import SETTINGS, TENANT_NAME, TENANT_NAME_WANTED, changed, checked, declared
from pathways_server.shell.tenant_tokens import Caller, TenantTokens, hashed, new_token

if TYPE_CHECKING:
    from pathways_server.core.share_records import Policy
    from pathways_server.core.state import State
    from pathways_server.shell.loop import Loop

_LOG = logging.getLogger(__name__)
# Each has a record in the core, and a row in every view.
TENANTS_MAX = 1024


@dataclass(frozen=True, slots=True)
class By:
    """Who asks for an administrative action, and from where."""

    caller: Caller
    peer: str

    def act(self, action: str, subject: str, before: str = "", after: str = "") -> Act:
        """The line that will tell of it."""
        return Act(time.time_ns(), self.caller.tenant, self.peer, action, subject, before, after)


class TenantBook:
    """The tenants of one life of the controller. `file`: settings of the configuration file by tenant."""

    def __init__(self, journal: TenantJournal, administrator: str | None, file: Mapping[str, Mapping[str, str]]) -> None:
        self._journal = journal
        kept = journal.tokens()
        self.tokens = TenantTokens(administrator, kept)
        self._file = {name: dict(settings) for name, settings in file.items()}
        self._set = {name: dict(_known(name, settings)) for name, settings in journal.settings().items()}
        self._names = dict.fromkeys([DEFAULT_TENANT, *file, *kept, *self._set])
        self._post: Callable[[Iterable[events.Event]], None] = lambda _events: None

    def attach(self, loop: Loop) -> None:
        """The core hears of everything that is set, now and whenever it changes."""
        self._post = lambda found: loop.post(tuple(found))
        # A core that goes on may know what was set otherwise, or nobody any more.
        known: dict[str, Declared] = {name: tenant.declared for name, tenant in loop.core.state.tenants.items()}
        names = [*self._names, *(name for name in known if name not in self._names)]
        told = [self._told(name) for name in names if self.declared(name) != known.get(name, Declared())]
        if told:
            self._post(told)

    def _told(self, name: str) -> events.TenantSet:
        return events.TenantSet(TenantName(name), self.declared(name))

    # ---- looking ----------------------------------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def names(self) -> list[str]:
        """Every tenant."""
        return sorted(self._names)

    def declared(self, name: str) -> Declared:
        """What holds for a tenant."""
        return self._with(name, self._set.get(name, {}))

    def _with(self, name: str, settings: Mapping[str, str]) -> Declared:
        return declared(self._file.get(name, {}), settings)

    def origins(self, name: str) -> dict[str, str]:
        """Where its settings come from: "file" or "set"; others are defaults."""
        return dict.fromkeys(self._file.get(name, {}), "file") | dict.fromkeys(self._set.get(name, {}), "set")

    def unknown(self, name: str) -> Failure:
        """That a name is nobody's."""
        sentence = f"there is no tenant {name!r}; make it with `pathways tenants add NAME`, or name another one"
        return Failure(Reason.INVALID_ARGUMENT, sentence, metadata={"tenant": name})

    # ---- changing ---------------------------------------------------------------------------------------------------

    def add(self, by: By, name: str, settings: Mapping[str, str]) -> str:
        """Makes a tenant; its token."""
        if not TENANT_NAME.fullmatch(name):
            sentence = f"{name!r} cannot be the name of a tenant; take {TENANT_NAME_WANTED}"
            raise fail(Reason.INVALID_ARGUMENT, sentence, tenant=name)
        if name == DEFAULT_TENANT or name in self.tokens:
            more = f"; `pathways tenants token {name}` gives it another token" if name in self.tokens else ""
            raise fail(Reason.INVALID_ARGUMENT, f"there is a tenant {name!r} already{more}", tenant=name)
        if len(self._names) >= TENANTS_MAX:
            sentence = f"there are {TENANTS_MAX} tenants, the most allowed; remove one first"
            raise fail(Reason.RESOURCE_EXHAUSTED, sentence, tenants=TENANTS_MAX)
        texts = checked(settings, "in the request")
        after = {**self._set.get(name, {}), **texts}
        token = new_token()
        _, differs = changed(Declared(), self._with(name, after))
        self._journal.add(name, hashed(token), after, by.act("AddTenant", name, after=differs))
        self.tokens.set(name, hashed(token))
        self._names[name] = None
        self._keep(name, after)
        return token

    def replace_token(self, by: By, name: str) -> str:
        """Another token for a tenant; the old one opens nothing any more."""
        self._must_exist(name)
        if name == DEFAULT_TENANT:
            sentence = "the token of tenant default is the administrator's, in the state directory: replace the file `token`"
            raise fail(Reason.INVALID_ARGUMENT, f"{sentence} there and start the controller again", tenant=name)
        token = new_token()
        self._journal.set_token(name, hashed(token), by.act("ReplaceToken", name))
        self.tokens.set(name, hashed(token))
        return token

    def set(self, by: By, name: str, settings: Mapping[str, str], cleared: Iterable[str] = ()) -> Declared:
        """Changes settings; `cleared` ones go back to the file's value or the default. What holds now."""
        self._must_exist(name)
        texts = checked(settings, "in the request")
        unknown = [setting for setting in cleared if setting not in SETTINGS]
        if unknown:
            sentence = f"a tenant has no setting {unknown[0]!r} to clear; it has {', '.join(SETTINGS)}"
            raise fail(Reason.INVALID_ARGUMENT, sentence, setting=unknown[0])
        kept = {setting: text for setting, text in self._set.get(name, {}).items() if setting not in set(cleared)}
        after = kept | texts
        act = by.act("SetTenant", name, *changed(self.declared(name), self._with(name, after)))
        self._journal.set_settings(name, after, act)
        self._keep(name, after)
        return self.declared(name)

    def remove(self, by: By, name: str) -> None:
        """Forgets a tenant: its token, its settings, its registered programs."""
        self._must_exist(name)
        if name == DEFAULT_TENANT:
            raise fail(Reason.INVALID_ARGUMENT, "the tenant default is the administrator's and cannot be removed", tenant=name)
        if name in self._file:
            sentence = f"tenant {name!r} is declared in the configuration file; take it out there first"
            raise fail(Reason.INVALID_ARGUMENT, sentence, tenant=name)
        self._journal.remove(name, by.act("RemoveTenant", name, changed(self.declared(name), Declared())[0]))
        self.tokens.remove(name)
        self._set.pop(name, None)
        del self._names[name]
        self._post((events.TenantRemoved(TenantName(name)),))

    def allow(self, by: By, state: State, beginning: str) -> None:
        """Lets a program that ended executors run again. `beginning`: of its content's hash, as far as it is unique."""
        found = [program for program in state.deaths if beginning and program.startswith(beginning)]
        if len(found) != 1:
            why = f"{len(found)} such programs ended executors" if found else "no such program ended an executor"
            sentence = f"{why}: {beginning!r}; `pathways tenants quarantine` lists those that did"
            raise fail(Reason.INVALID_ARGUMENT, sentence, program=beginning)
        deaths = state.deaths[found[0]]
        act = by.act("AllowProgram", found[0], f"{len(deaths)} deaths", "allowed")
        self._journal.forget_deaths(found[0], act)
        self._post((events.ProgramAllowed(found[0]),))

    def set_policy(self, by: By, state: State, island: str, policy: Policy) -> list[str]:
        """Chooses how an island orders work, or with "" every island, also in later lives; returns their names."""
        chosen = [each for each in state.islands.values() if each.tenant is None and island in ("", each.name)]
        if not chosen:
            names = ", ".join(sorted(each.name for each in state.islands.values() if each.tenant is None)) or "none yet"
            wanted = f"there is no island {island!r}" if island else "no island has a host"
            raise fail(Reason.INVALID_ARGUMENT, f"{wanted}; the cluster has {names}", island=island)
        for each in chosen:
            line = by.act("SetPolicy", each.name, each.ground.policy.value, policy.value)
            self._journal.set_policy(each.name, policy.value, line)
        self._post(events.PolicySet(each.name, policy) for each in chosen)
        return [each.name for each in chosen]

    def _must_exist(self, name: str) -> None:
        if name not in self._names:
            raise PathwaysError(self.unknown(name))

    def _keep(self, name: str, settings: dict[str, str]) -> None:
        self._set[name] = settings
        self._post((self._told(name),))


def _known(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Without what this version of the controller does not know or take."""
    found: dict[str, str] = {}
    for setting, text in settings.items():
        try:
            found |= checked({setting: text}, "in the journal")
        except PathwaysError as error:
            _LOG.error("a setting cannot be read", extra=fields(tenant=name, cause=error))
    return found
