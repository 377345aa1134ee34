"""Values as plain data between the tests' process and the sample's: rebuilt from scratch, never loaded.

A message is JSON: a scalar stands for itself, all else is [type's name, ...]. A container carries a number
that both ends share, so that one object stays one, and what a call changed in its arguments is changed in the
tests' own objects. Of a subclass goes over what makes its base, of a library's other value its truth alone;
the sample's own other classes are refused. Depth ends at some 300 levels. Lost are the identity of scalars
and, from one call to the next, of all; a set's order where items were taken out; what a call does to a
bytearray or an iterator. Each process has a state of `random`; the solution is executed in both stages.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import math
import socket
import struct
import sys
from array import array as Array
from collections import (
    ChainMap,
    Counter,
    OrderedDict,
    UserDict,
    UserList,
    UserString,
    defaultdict,
    deque,
)
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from operator import index
from types import MappingProxyType
from typing import Any, NoReturn

LONGEST = 1 << 26  # bytes of a message
DRAWN = 1 << 12  # items of a generator, whose rest is lost
FILLED = {t.__name__: t for t in (list, dict, set, deque, Counter, OrderedDict, defaultdict)}
VIEWS = ("keys", "values", "items")
CONTAINERS = FILLED | {"tuple": tuple, "frozenset": frozenset}
# Type -> (what a value is made of, how it is made of that).
PARTS: dict[type, tuple[Callable[[Any], Iterable], Callable]] = {
    int: (lambda x: [hex(x)], lambda text: int(text, 16)),
    float: (
        lambda x: [struct.pack(">d", x).hex()],
        lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
    ),
    bytes: (lambda x: [x.hex()], bytes.fromhex),
    complex: (lambda x: [x.real, x.imag], complex),
    Decimal: (lambda x: [str(x)], Decimal),
    # Of a text a fraction would compute.
    Fraction: (lambda x: [x.numerator, x.denominator], lambda *parts: Fraction(*map(index, parts))),
    range: (lambda x: [x.start, x.stop, x.step], range),
    timedelta: (lambda x: [x.days, x.seconds, x.microseconds], timedelta),
    timezone: (lambda x: [x.utcoffset(None)], timezone),
    **{t: (lambda x: x.__reduce_ex__(3)[1], t) for t in (date, time, datetime)},
    type({}.keys()): (list, lambda *items: dict.fromkeys(items).keys()),
    type({}.values()): (list, lambda *items: dict(enumerate(items)).values()),
    type({}.items()): (list, lambda *items: dict(items).items()),
}
MADE = {t.__name__: make for t, (_, make) in PARTS.items()}
# Of these classes, and all below them, goes over a plain value that does in tests what one does.
EQUAL: dict[type, Callable] = {str: str.__str__, int: int.__int__, float: float.__float__}
EQUAL |= {UserString: str}
EQUAL |= dict.fromkeys((bytearray, memoryview), bytes) | dict.fromkeys((UserList, Array), list)
EQUAL |= dict.fromkeys((ChainMap, UserDict, MappingProxyType), dict)
EQUAL |= {
    type(getattr(OrderedDict(), of)()): lambda x, of=of: getattr(dict(x.mapping), of)()
    for of in VIEWS
}
NUMBERS = "biufcSUMm"  # numpy's kinds, without objects


class Packer:
    """Values to what JSON holds; `kept`: the containers by number, first those `known` there."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self.kept = list(known)  # alive, so that no id is given again
        self.numbers = {id(x): n for n, x in enumerate(self.kept)}
        self.sent: set[int] = set()

    def pack(self, x: Any) -> Any:
        """TypeError names the type of a value that does not go over."""
        kind = type(x)
        if x is None or kind is str or kind is bool or (kind is int and abs(x) < 1 << 63):
            return x
        if kind is float and math.isfinite(x):
            return x
        name = kind.__name__
        if CONTAINERS.get(name) is kind or _is_array(x, kind):
            return self._container(x, name)
        if kind in PARTS:
            return [name, *map(self.pack, PARTS[kind][0](x))]
        if hasattr(kind, "__next__"):
            items: list[Any] = []
            late = raised(lambda: items.extend(islice(x, DRAWN)))  # it keeps those before an error
            return ["iterator", *map(self.pack, [late, *items])]
        for base in kind.__mro__:  # as a named tuple is equal to a tuple
            if CONTAINERS.get(base.__name__) is base:
                return self._container(x, base.__name__)
            if base in EQUAL:
                return self.pack(EQUAL[base](x))
        module = getattr(kind, "__module__", "builtins")
        if module in ("builtins", "__main__"):  # where a sample's own classes are
            raise TypeError(f"{module}.{kind.__qualname__}")
        return ["foreign", f"{module}.{kind.__qualname__}", bool(x)]

    def _container(self, x: Any, name: str) -> list[Any]:
        number = self.numbers.setdefault(id(x), len(self.kept))
        if number == len(self.kept):
            self.kept.append(x)
        if number in self.sent:
            return ["=", number]
        self.sent.add(number)
        if hasattr(x, "dtype"):
            return [
                "array",
                number,
                x.dtype.str,
                x.shape if name == "ndarray" else None,
                x.tobytes().hex(),
            ]
        return [
            name,
            number,
            *map(self.pack, chain.from_iterable(x.items()) if isinstance(x, dict) else x),
        ]


def _is_array(x: Any, kind: type) -> bool:
    """Whether it is an array or a scalar of numpy's, of numbers, texts or times."""
    numpy = sys.modules.get("numpy")
    own = (
        numpy
        and kind.__module__ == "numpy"
        and (kind is numpy.ndarray or isinstance(x, numpy.generic))
    )
    return bool(own) and x.dtype.kind in NUMBERS


def raised(call: Callable[[], Any]) -> list[Any] | None:
    """Of what `error` makes the call's exception again, its text for foreign arguments; None: it ended."""
    try:
        call()
    except BaseException as e:  # noqa: BLE001  as the tests would have met it
        names, absent = (
            [c.__name__ for c in type(e).__mro__],
            e.name if isinstance(e, ImportError) else None,
        )
        try:
            Packer().pack([absent, *e.args])
        except TypeError:
            return [names, None, str(e)]
        return [names, absent, *e.args]
    return None


def error(names: list[str], absent: Any, *args: Any) -> BaseException:
    """The builtin exception that comes nearest to a class of these names and takes these arguments."""
    for found in (getattr(builtins, n, None) for n in names):
        if isinstance(found, type) and issubclass(found, BaseException):
            with contextlib.suppress(TypeError, ValueError):
                made = found(*args)
                if isinstance(made, ImportError):
                    made.name = absent
                return made
    raise ValueError("not an exception")


def _iterator(late: list[Any] | None, *items: Any) -> Iterator[Any]:
    yield from items
    if late:
        raise error(*late)


def _foreign(name: str, truth: bool) -> Any:
    """In place of a library's value that is no plain data: equal to nothing, and as true as that is."""
    return type(name, (), {"__bool__": lambda _: bool(truth)})()


MADE |= {"iterator": _iterator, "foreign": _foreign}


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
        return MADE[name](*map(self.unpack, rest))

    def _container(self, name: str, number: int, *rest: Any) -> Any:
        if name == "array":
            known, array = self.table.get(number), _array(*rest)
            if known is not None and array.shape:
                known[...] = array
            return self.table.setdefault(number, array)
        if name not in FILLED:
            return self.table.setdefault(number, CONTAINERS[name]([self.unpack(n) for n in rest]))
        x = self.table.setdefault(number, FILLED[name]())
        items = [self.unpack(n) for n in rest]
        x.clear()
        if isinstance(x, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                x[key] = value
        else:
            getattr(x, "update" if name == "set" else "extend")(items)
        return x


def _array(kind: str, shape: list[int] | None, text: str) -> Any:
    import numpy

    dtype = numpy.dtype(kind)
    if dtype.kind not in NUMBERS:
        raise ValueError("not an array of plain values")
    array = numpy.ndarray(() if shape is None else shape, dtype, bytearray.fromhex(text))
    if dtype.itemsize and 2 * array.nbytes != len(text):
        raise ValueError("not the bytes of such an array")
    return array[()] if shape is None else array


def receive(line: socket.socket) -> Any:
    """The next message; EOFError when the other end has closed."""
    size = int.from_bytes(_read(line, 4))
    if size > LONGEST:
        raise ValueError("a message that is too long")
    return json.loads(_read(line, size))


def _read(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := line.recv(size - len(data), socket.MSG_WAITALL)):
            raise EOFError("the other end closed the line")
        data += more
    return data


def send(line: socket.socket, message: Any) -> None:
    """ValueError, and nothing is sent, where it is too long."""
    data = json.dumps(message).encode()
    if len(data) > LONGEST:
        raise ValueError(f"{len(data)} bytes, more than the {LONGEST} that go over")
    line.sendall(len(data).to_bytes(4) + data)


def serve(line: socket.socket, space: dict[str, Any]) -> bytes:
    """In the sample's process: calls what the tests ask for, until they end and send themselves."""
    while (message := receive(line))[0]:
        name, args, named = message
        opened = Unpacker()
        args, named = (
            [opened.unpack(n) for n in args],
            {k: opened.unpack(n) for k, n in named.items()},
        )
        known = [opened.table[n] for n in range(len(opened.table))]
        before, values = json.dumps([*map(Packer(known).pack, known)]), list[Any]()
        late = raised(lambda: values.append(eval(name, space)(*args, **named)))  # noqa: B023  as tests look it up
        try:
            packer = Packer(known)
            value = packer.pack(late or values[0])  # first: drawing may change the arguments too
            state = [*map(packer.pack, known)]
            send(
                line,
                [
                    "raised" if late else "value",
                    value,
                    state if json.dumps(state) != before else None,
                ],
            )
        except Exception as e:  # noqa: BLE001  whatever its class does when it is looked at
            send(line, ["no value", str(e) or type(e).__name__, None])
    return bytes.fromhex(message[1])


def stand_in(
    line: socket.socket, refuse: Callable[[str], NoReturn], name: str
) -> Callable[..., Any]:
    """In the tests' process: the sample's function of that name; `refuse` ends what no honest sample does."""

    def call(*args: Any, **named: Any) -> Any:
        for given in (*args, *named.values()):
            if (
                getattr(given, "__code__", None) is call.__code__
            ):  # no function, but what these tests lack
                raise NameError(f"name {given.__name__!r} is not defined")
        packer = Packer()
        try:
            send(
                line,
                [
                    name,
                    [packer.pack(a) for a in args],
                    {k: packer.pack(a) for k, a in named.items()},
                ],
            )
            kind, value, state = receive(line)
            opened = Unpacker(packer.kept)
            result = opened.unpack(value)
            for node in state or ():
                opened.unpack(node)
            if kind == "raised":
                result = error(*result)
        except Exception as e:  # noqa: BLE001  whatever the sample wrote is no answer
            refuse(f"no answer: {type(e).__name__}: {e}")
        if kind == "no value":
            refuse(f"not comparable by value: {result}")
        if kind == "raised":
            raise result
        return result

    call.__name__ = name
    return call
