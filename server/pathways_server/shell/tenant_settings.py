"""Settings of a tenant by their names, which are the same in the configuration file, on the command line and in the journal.

Texts are what is kept and layered: defaults, then the configuration file, then what was set at run time, setting by setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.sizes import parse_size

from pathways_server.core.tenant_records import Declared, Priority

TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
TENANT_NAME_WANTED = "1 to 64 letters, digits, '-', '_' and '.', the first a letter or digit"
_WEIGHT_MAX = 1_000_000
_COUNT_MAX = 1_000_000
_BYTES_MAX = 1 << 60
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}
_OVER = {"wait": True, "fail": False}
_ISOLATION = {"process": True, "shared": False}
_WORDS = {"over": _OVER, "isolation": _ISOLATION}


@dataclass(frozen=True, slots=True)
class Setting:
    """`field` of Declared; `parse` raises ValueError or KeyError; `wanted` says in words what it takes."""

    field: str
    parse: Callable[[str], Any]
    wanted: str


def _number(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if not lowest <= number <= highest:
            raise ValueError(text)
        return number

    return parse


def _size(text: str) -> int:
    size = parse_size(text)
    if size > _BYTES_MAX:
        raise ValueError(text)
    return size


_COUNT = (_number(0, _COUNT_MAX), f"a whole number from 0 (no limit) to {_COUNT_MAX}")
SETTINGS: Mapping[str, Setting] = {
    "weight": Setting("weight", _number(1, _WEIGHT_MAX), f"a whole number from 1 to {_WEIGHT_MAX}"),
    "priority": Setting("priority", _PRIORITIES.__getitem__, "low, normal or high"),
    "max_devices": Setting("devices_max", *_COUNT),
    "max_memory": Setting("memory_bytes_max", _size, "a size such as 512M or 2GiB, 0 for no limit"),
    "max_sessions": Setting("sessions_max", *_COUNT),
    "max_programs": Setting("programs_max", *_COUNT),
    "over": Setting("waits", _OVER.__getitem__, "wait or fail"),
    "isolation": Setting("isolated", _ISOLATION.__getitem__, "process or shared"),
}
Texts = Mapping[str, str]


def checked(texts: Mapping[str, object], where: str) -> dict[str, str]:
    """The same as texts; raises PathwaysError with one sentence if one of them is no setting, or not one that can be."""
    found: dict[str, str] = {}
    for name, value in texts.items():
        setting = SETTINGS.get(name)
        if setting is None:
            sentence = f"a tenant has no setting {name!r} ({where}); it has {', '.join(SETTINGS)}"
            raise fail(Reason.INVALID_ARGUMENT, sentence, setting=name)
        text = str(value)
        try:
            if isinstance(value, bool):
                raise ValueError(text)
            setting.parse(text)
        except (ValueError, KeyError):
            raise _wrong(name, value, where, setting.wanted) from None
        found[name] = text
    return found


def _wrong(name: str, value: object, where: str, wanted: str) -> PathwaysError:
    sentence = f"the setting {name} is {value!r} ({where}); it must be {wanted}"
    return fail(Reason.INVALID_ARGUMENT, sentence, setting=name, value=value)


def declared(*layers: Texts) -> Declared:
    """What holds: later layers win. The texts were checked."""
    found = Declared()
    for layer in layers:
        for name, text in layer.items():
            setting = SETTINGS[name]
            found = replace(found, **{setting.field: setting.parse(text)})
    return found


def changed(before: Declared, after: Declared) -> tuple[str, str]:
    """Both values of everything that differs, for an audit line."""
    pairs = [(name, getattr(before, setting.field), getattr(after, setting.field)) for name, setting in SETTINGS.items()]
    different = [(name, _text(name, old), _text(name, new)) for name, old, new in pairs if old != new]
    return " ".join(f"{name}={old}" for name, old, _ in different), " ".join(f"{name}={new}" for name, _, new in different)


def _text(name: str, value: int) -> str:
    if isinstance(value, Priority):
        return value.name.lower()
    words = _WORDS.get(name)
    return str(value) if words is None else next(word for word, meaning in words.items() if meaning is value)
