"""Values as plain data between the tests' process and the sample's: rebuilt from scratch, never loaded.

A message is JSON: a scalar stands for itself, all else is [type's name, ...]. A container carries a number
that both ends share, so that one object stays one, and what a call changed in its arguments is changed in the
tests' own objects. Types are exact: of a subclass, or of any other type, only the name goes over.
"""

from __future__ import annotations

import builtins
import datetime
import itertools
import json
import math
import socket
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

LONGEST = 1 << 26  # bytes of a message
DRAWN = 1 << 16  # items of a generator
SMALL = 1 << 63
FILLED = {t.__name__: t for t in (list, dict, set, deque, bytearray, Counter, OrderedDict, defaultdict)}
CONTAINERS = FILLED | {"tuple": tuple, "frozenset": frozenset}
# What a value is made of, and made again from by its own type.
PARTS: dict[type, Callable[[Any], tuple]] = {
    complex: lambda x: (x.real, x.imag),
    Decimal: lambda x: (str(x),),
    Fraction: lambda x: (x.numerator, x.denominator),
    range: lambda x: (x.start, x.stop, x.step),
    datetime.timedelta: lambda x: (x.days, x.seconds, x.microseconds),
    datetime.timezone: lambda x: (x.utcoffset(None),),
} | {t: lambda x: x.__reduce_ex__(3)[1] for t in (datetime.date, datetime.time, datetime.datetime)}
MADE = {t.__name__: t for t in PARTS}
VIEWS: dict[str, Callable[[list], Any]] = {
    "dict_keys": lambda items: dict.fromkeys(items).keys(),
    "dict_values": lambda items: dict(enumerate(items)).values(),
    "dict_items": lambda items: dict(items).items(),
}
ENDED = "the sample ended"
NUMBERS = "biufcSUMm"  # numpy's kinds, without objects


class Foreign(Exception):
    """A value that does not go over, with its type's name."""


class Packer:
    """Values to what JSON holds; `kept`: the containers by number, first those `known` there."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self.kept = list(known)  # alive, so that no id is given again
        self.numbers = {id(x): n for n, x in enumerate(self.kept)}
        self.sent: set[int] = set()

    def pack(self, x: Any) -> Any:
        kind = type(x)
        if x is None or kind is str or kind is bool:
            return x
        if kind is int:
            return x if -SMALL < x < SMALL else ["int", hex(x)]
        if kind is float:
            return x if math.isfinite(x) else ["float", struct.pack(">d", x).hex()]
        if kind is bytes:
            return ["bytes", x.hex()]
        if kind in PARTS:
            return [kind.__name__, *map(self.pack, PARTS[kind](x))]
        if kind is type and getattr(builtins, x.__name__, None) is x:
            return ["type", x.__name__]
        if CONTAINERS.get(kind.__name__) is kind or _is_array(x, kind):
            return self._container(x, kind.__name__)
        if kind.__module__ == "builtins" and kind.__name__ in VIEWS:
            return [kind.__name__, *map(self.pack, x)]
        if hasattr(kind, "__next__"):
            return ["iterator", *map(self.pack, itertools.islice(x, DRAWN))]
        raise Foreign(f"{kind.__module__}.{kind.__qualname__}")

    def _container(self, x: Any, name: str) -> list[Any]:
        number = self.numbers.setdefault(id(x), len(self.kept))
        if number == len(self.kept):
            self.kept.append(x)
        if number in self.sent:
            return ["=", number]
        self.sent.add(number)
        if name == "bytearray":
            return [name, number, x.hex()]
        if hasattr(x, "dtype"):
            shape = x.shape if name == "ndarray" else (None,)
            return ["array", number, x.dtype.str, *shape, x.tobytes().hex()]
        items = itertools.chain.from_iterable(x.items()) if isinstance(x, dict) else x
        return [name, number, *map(self.pack, items)]


def _is_array(x: Any, kind: type) -> bool:
    """Whether it is an array or a scalar of numpy's, of numbers, texts or times."""
    numpy = sys.modules.get("numpy")
    own = numpy and kind.__module__ == "numpy" and (kind is numpy.ndarray or isinstance(x, numpy.generic))
    return bool(own) and x.dtype.kind in NUMBERS


class Unpacker:
    """What `Packer` packed, as new objects, but `known` ones in place; any error means: not of a Packer."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self.table: dict[int, Any] = dict(enumerate(known))

    def unpack(self, node: Any) -> Any:
        if type(node) is not list:
            if type(node) is dict:
                raise ValueError("not a value")
            return node
        name, *rest = node
        if name == "=":
            return self.table[rest[0]]
        if name in CONTAINERS or name == "array":
            return self._container(name, *rest)
        if name in MADE:
            return MADE[name](*map(self.unpack, rest))
        if name in VIEWS:
            return VIEWS[name]([self.unpack(n) for n in rest])
        if name == "iterator":
            return _drawn([self.unpack(n) for n in rest])
        (text,) = rest
        if name == "type":
            found = getattr(builtins, text)
            return found if type(found) is type else NotImplemented
        if name == "int":
            return int(text, 16)
        data = bytes.fromhex(text)
        return data if name == "bytes" else struct.unpack(">d", data)[0]

    def _container(self, name: str, number: int, *rest: Any) -> Any:
        known = self.table.get(number)
        if name == "array":
            array = _array(*rest)
            if known is not None:
                known[...] = array
            return self.table.setdefault(number, array)
        if name not in FILLED:
            items = [self.unpack(n) for n in rest]
            return self.table.setdefault(number, CONTAINERS[name](items))
        x = self.table.setdefault(number, FILLED[name]())
        if type(x) is not FILLED[name]:
            raise ValueError("one object is two")
        if name == "bytearray":
            x[:] = bytes.fromhex(*rest)
            return x
        items = [self.unpack(n) for n in rest]
        x.clear()
        if isinstance(x, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                x[key] = value
        else:
            getattr(x, "update" if name == "set" else "extend")(items)
        return x


def _array(kind: str, *rest: Any) -> Any:
    import numpy

    *shape, text = rest
    dtype = numpy.dtype(kind)
    if dtype.kind not in NUMBERS:
        raise ValueError("not an array of plain values")
    array = numpy.frombuffer(bytearray.fromhex(text), dtype)
    return array[0] if shape == [None] else array.reshape(shape)


def _drawn(items: list[Any]) -> Iterator[Any]:
    yield from items
    if len(items) == DRAWN:
        raise ValueError(f"more than {DRAWN} items were not drawn")


def receive(line: socket.socket) -> Any:
    """The next message; None when the other end has closed."""
    size = int.from_bytes(line.recv(4, socket.MSG_WAITALL))
    if size > LONGEST:
        raise ValueError("a message that is too long")
    data = line.recv(size, socket.MSG_WAITALL) if size else b""
    return json.loads(data) if size and len(data) == size else None


def send(line: socket.socket, message: Any) -> None:
    data = json.dumps(message).encode()
    line.sendall(len(data).to_bytes(4) + data)


def serve(line: socket.socket, space: dict[str, Any]) -> None:
    """In the sample's process: calls what the tests ask for, until they close the line."""
    while (request := receive(line)) is not None:
        name, args, named = request
        opened = Unpacker()
        args = [opened.unpack(n) for n in args]
        named = {k: opened.unpack(n) for k, n in named.items()}
        try:
            reply = _answer(space, name, args, named, [opened.table[n] for n in range(len(opened.table))])
        except (Foreign, RecursionError) as e:
            reply = ["foreign", None, str(e)]
        send(line, reply)


def _answer(space: dict[str, Any], name: str, args: list, named: dict, known: list[Any]) -> list[Any]:
    """[kind, the contents of `known` where the call changed them, what it gave or raised]."""
    before, kind = _contents(known, Packer(known)), "value"
    try:
        result = space[name](*args, **named)
        if hasattr(type(result), "__next__"):  # drawing may change the arguments too
            result = iter(list(itertools.islice(result, DRAWN)))
    except BaseException as e:  # noqa: BLE001  as the tests would have met it
        kind, result = "raised", [[c.__name__ for c in type(e).__mro__], str(e), *e.args]
    packer, state = Packer(known), None
    if json.dumps(_contents(known, Packer(known))) == json.dumps(before):
        packer.sent.update(range(len(known)))
    else:
        state = _contents(known, packer)
    return [kind, state, packer.pack(result)]


def _contents(known: list[Any], packer: Packer) -> list[Any]:
    return [packer.pack(x) for x in known]


def stand_in(name: str, line: socket.socket, refuse: Callable[[str], NoReturn]) -> Callable[..., Any]:
    """In the tests' process: the sample's function of that name; `refuse` ends what no honest sample does."""

    def call(*args: Any, **named: Any) -> Any:
        packer = Packer()
        try:
            send(line, [name, [packer.pack(a) for a in args], {k: packer.pack(a) for k, a in named.items()}])
            kind, state, value = receive(line) or ("ended", None, None)
            opened = Unpacker(packer.kept)
            for node in state or ():
                opened.unpack(node)
            result = opened.unpack(value)
            error = _error(*result) if kind == "raised" else None
        except Foreign as e:
            refuse(f"the tests give a {e}")
        except Exception as e:  # noqa: BLE001  whatever the sample wrote is no answer
            refuse(f"no answer: {type(e).__name__}: {e}")
        if error:
            raise error
        if kind != "value":
            refuse(ENDED if kind == "ended" else f"not comparable by value: {result}")
        return result

    return call


def _error(names: list[str], text: str, *args: Any) -> BaseException:
    """The builtin exception that comes nearest."""
    found = [getattr(builtins, n, None) for n in names]
    nearest = next(c for c in found if isinstance(c, type) and issubclass(c, BaseException))
    try:
        return nearest(*args)
    except TypeError:
        return nearest(text)
