"""Objects of the core as text and back: a graph of records with its shared references and cycles, and nothing that runs.

Only plain values, containers, and classes of the core and of the common model are read or written; of a class, only its fields.
Plain values stand for themselves, everything else is a node of its own, and `[3]` stands for node 3. A record is made empty and
filled later, so cycles close; what is hashed by content is filled before it becomes a key.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

_MODULES = ("pathways_server.core.", "pathways_common.model.")
_Fields = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
_NAMES: dict[type, str] = {}
_FIELDS: dict[type, _Fields] = {}
_PLAIN = frozenset((type(None), bool, int, float, str))
# Nodes that are written at once.
_BATCH = 256
# Kinds of nodes; what is no kind is a class.
_LIST, _TUPLE, _DICT, _DEQUE, _SET, _FROZENSET, _BYTES, _PROXY, _WEAK, _ENUM = "ltdqsfbpwe"


def dumps(root: object) -> bytes:
    """The graph behind a value; raises TypeError if something in it cannot be kept."""
    numbers: dict[int, int] = {}
    nodes: list[Any] = []

    def refer(value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        number = numbers.get(id(value))
        if number is None:
            number = numbers[id(value)] = len(nodes)
            nodes.append(value)
        return [number]

    # As text soon: the lists that it is made of take several times its room, and a heap that was that large does not shrink.
    texts, written = [], [refer(root)]
    for node in nodes:  # grows meanwhile
        written.append(_WRITE.get(type(node), _write_record)(node, refer))
        if len(written) >= _BATCH:
            texts.append(_text(written))
            written.clear()
    if written:
        texts.append(_text(written))
    return b"[%b]" % b",".join(texts)


def _text(written: list[Any]) -> bytes:
    """Nodes one behind the other, without what surrounds all of them."""
    return json.dumps(written, separators=(",", ":")).encode()[1:-1]


def _write_record(node: Any, refer: Callable[[Any], Any]) -> list[Any]:
    kind = type(node)
    if isinstance(node, Enum):
        return [_ENUM, _name_of(kind), node.name]
    if isinstance(node, tuple):  # a named one
        return [_name_of(kind), *map(refer, node)]
    names, get = _fields(kind)
    try:
        values = get(node)
    except AttributeError:
        values = tuple(getattr(node, name, _Unset) for name in names)
    return [_name_of(kind), *[[] if value is _Unset else refer(value) for value in values]]


class _Unset:
    """A field that was never set."""


_WRITE: dict[type, Callable[[Any, Callable[[Any], Any]], list[Any]]] = {
    list: lambda node, refer: [_LIST, *map(refer, node)],
    tuple: lambda node, refer: [_TUPLE, *map(refer, node)],
    dict: lambda node, refer: [_DICT, *[refer(each) for pair in node.items() for each in pair]],
    MappingProxyType: lambda node, refer: [_PROXY, *[refer(each) for pair in node.items() for each in pair]],
    WeakValueDictionary: lambda node, refer: [_WEAK, *[refer(each) for pair in node.items() for each in pair]],
    deque: lambda node, refer: [_DEQUE, node.maxlen, *map(refer, node)],
    set: lambda node, refer: [_SET, *map(refer, node)],
    frozenset: lambda node, refer: [_FROZENSET, *map(refer, node)],
    bytes: lambda node, _refer: [_BYTES, base64.b64encode(node).decode()],
}


def _name_of(kind: type) -> str:
    found = _NAMES.get(kind)
    if found is not None:
        return found
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not kind.__module__.startswith(_MODULES) or "<" in name:
        raise TypeError(f"a {name} cannot be kept")
    _NAMES[kind] = name
    return name


@cache
def _class_of(name: str) -> type:
    module, _, path = name.partition(":")
    if not module.startswith(_MODULES):
        raise ValueError(f"a {name} is not read")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not isinstance(found, type):
        raise ValueError(f"{name} is no class")
    return found


def _fields(kind: type) -> _Fields:
    """The fields of a record in a fixed order, and what reads them all."""
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = _look_up(kind)
    return found


def _look_up(kind: type) -> _Fields:
    names: dict[str, None] = {}
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    names.pop("__weakref__", None)
    if dataclasses.is_dataclass(kind):
        names |= {field.name: None for field in dataclasses.fields(kind)}
    elif "__slots__" not in kind.__dict__:
        return ("__dict__",), lambda node: (node.__dict__,)
    ordered = tuple(names)
    if len(ordered) > 1:
        return ordered, attrgetter(*ordered)
    return ordered, lambda node: tuple(getattr(node, name) for name in ordered)


# ---- reading --------------------------------------------------------------------------------------------------------


def loads(data: bytes) -> Any:
    """The value behind `dumps`; raises ValueError, TypeError, KeyError, AttributeError or ImportError if it cannot be."""
    root, *written = json.loads(data)
    return _Reader(written).read(root)


class _Reader:
    def __init__(self, written: list[list[Any]]) -> None:
        self._written = written
        self._nodes: list[Any] = [_Unset] * len(written)

    def read(self, root: Any) -> Any:
        """Makes what can be made empty, then what cannot, then fills: records first, what hashes last."""
        late: list[tuple[Any, list[Any]]] = []
        records: list[tuple[Any, list[Any]]] = []
        for number, entry in enumerate(self._written):
            kind = entry[0]
            if kind in (_DICT, _SET, _WEAK, _PROXY):
                inner: Any = {} if kind in (_DICT, _PROXY) else set() if kind == _SET else WeakValueDictionary()
                self._nodes[number] = MappingProxyType(inner) if kind == _PROXY else inner
                late.append((inner, entry))
            elif kind == _LIST:
                self._nodes[number] = []
            elif kind == _DEQUE:
                self._nodes[number] = deque(maxlen=entry[1])
            elif len(kind) > 1 and not issubclass(made := _class_of(kind), tuple):
                self._nodes[number] = made.__new__(made)
                records.append((self._nodes[number], entry))
        for number in range(len(self._written)):
            self._at(number)
        for number, entry in enumerate(self._written):
            if entry[0] == _LIST:
                self._nodes[number].extend(map(self._value, entry[1:]))
            elif entry[0] == _DEQUE:
                self._nodes[number].extend(map(self._value, entry[2:]))
        for record, entry in records:
            self._fill(record, entry)
        for inner, entry in late:
            values = list(map(self._value, entry[1:]))
            if isinstance(inner, set):
                inner.update(values)
            else:
                inner.update(zip(values[::2], values[1::2], strict=True))
        return self._value(root)

    def _fill(self, record: Any, entry: list[Any]) -> None:
        names, _ = _fields(type(record))
        for name, value in zip(names, entry[1:], strict=True):
            if value == []:
                continue
            if name == "__dict__":
                # Filled later, and then it is the record's own.
                object.__setattr__(record, "__dict__", self._value(value))
            else:
                object.__setattr__(record, name, self._value(value))

    def _value(self, written: Any) -> Any:
        return self._nodes[written[0]] if type(written) is list else written

    def _at(self, number: int) -> Any:
        """A node that is complete as soon as it is made."""
        found = self._nodes[number]
        if found is not _Unset:
            return found
        kind, *entry = self._written[number]
        if kind == _BYTES:
            made: Any = base64.b64decode(entry[0])
        elif kind == _ENUM:
            made = _class_of(entry[0])[entry[1]]  # type: ignore[index]
        else:
            values = [self._at(each[0]) if type(each) is list else each for each in entry]
            if kind == _TUPLE:
                made = tuple(values)
            elif kind == _FROZENSET:
                made = frozenset(values)
            else:
                made = _class_of(kind)._make(values)  # type: ignore[attr-defined]
        self._nodes[number] = made
        return made
