"""Values as plain data between the tests' process and the sample's: rebuilt, never loaded.

A message is JSON. A scalar is itself, and every other value is [name of its type, ...]. Both
ends identify a container by the same number. So one object stays one object, and a call that
changes its arguments changes the tests' own objects. An instance of a subclass is sent as the value
of its base class. For a library's other values, only their truth value is sent. Other classes of
the sample are refused.

Limits: values may have about 300 levels of nesting. These properties are lost: the identity of
scalars; the identity of all objects between two calls; the order of a set from which items were
removed; and changes that a call makes to a bytearray or an iterator. Each process has its own state
of `random`. The solution is executed in both stages.
"""

from __future__ import annotations

import array
import builtins
import contextlib
import json
import math
import os
import socket
import struct
import sys
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

# How a test ended, in the fork server's replies. The first four are also letters on the verdict's
# channel. PRINTED: an interpreter has ended, and what it printed decides.
PASSED = "P"
FAILED = "F"
FAULT = "I"
LAYERS = "L"
SUSPICIOUS = "S"
TIMEOUT = "T"
ENDED = "E"
PRINTED = "O"
LONGEST = 1 << 26  # bytes of a message
DRAWN = 1 << 12  # items that are sent of a generator; the rest is lost
FILLED: dict[str, type] = {
    "list": list,
    "dict": dict,
    "set": set,
    "deque": deque,
    "Counter": Counter,
    "OrderedDict": OrderedDict,
    "defaultdict": defaultdict,
}
CONTAINERS: dict[str, type] = FILLED | {"tuple": tuple, "frozenset": frozenset}
NUMBERS = "biufcSUMm"  # numpy's kinds of data, without objects
Make = Callable[..., Any]


def _float_of(text: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


def _fraction_of(*parts: object) -> Fraction:
    """Make a fraction of integers only: of a text it would compute."""
    return Fraction(*map(index, parts))  # type: ignore[arg-type]  # `index` refuses the others


def _arguments(x: date | time) -> Any:
    return x.__reduce_ex__(3)[1]


# Type -> (what a value is made of, how it is made of that).
PARTS: dict[type, tuple[Callable[[Any], Iterable[Any]], Make]] = {
    int: (
        lambda x: [hex(x)],
        lambda text: int(text, 16),
    ),
    float: (
        lambda x: [struct.pack(">d", x).hex()],
        _float_of,
    ),
    bytes: (
        lambda x: [x.hex()],
        bytes.fromhex,
    ),
    complex: (
        lambda x: [x.real, x.imag],
        complex,
    ),
    Decimal: (
        lambda x: [str(x)],
        Decimal,
    ),
    Fraction: (
        lambda x: [x.numerator, x.denominator],
        _fraction_of,
    ),
    range: (
        lambda x: [x.start, x.stop, x.step],
        range,
    ),
    timedelta: (
        lambda x: [x.days, x.seconds, x.microseconds],
        timedelta,
    ),
    timezone: (
        lambda x: [x.utcoffset(None)],
        timezone,
    ),
    date: (
        _arguments,
        date,
    ),
    time: (
        _arguments,
        time,
    ),
    datetime: (
        _arguments,
        datetime,
    ),
    type({}.keys()): (
        list,
        lambda *items: dict.fromkeys(items).keys(),
    ),
    type({}.values()): (
        list,
        lambda *items: dict(enumerate(items)).values(),
    ),
    type({}.items()): (
        list,
        lambda *items: dict(items).items(),
    ),
}
# Class -> makes a plain value that tests cannot tell from an instance of it, or of a class below
# it.
PLAIN: dict[type, Make] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    UserString: str,
    bytearray: bytes,
    memoryview: bytes,
    UserList: list,
    array.array: list,
    ChainMap: dict,
    UserDict: dict,
    MappingProxyType: dict,
    type(OrderedDict().keys()): lambda x: dict(x.mapping).keys(),
    type(OrderedDict().values()): lambda x: dict(x.mapping).values(),
    type(OrderedDict().items()): lambda x: dict(x.mapping).items(),
}


class Packer:
    """Turns values into what JSON can hold.

    Attributes:
        kept: The containers by number. They are kept alive, so that no id is used again.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        """Start a message.

        Args:
            known: Containers that the other end has, by number.
        """
        self.kept = list(known)
        self.numbers = {id(x): number for number, x in enumerate(self.kept)}
        self.sent: set[int] = set()

    def pack(self, x: Any) -> Any:
        """Pack a value.

        Args:
            x: The value.

        Returns:
            A value that JSON can hold.

        Raises:
            TypeError: The value cannot be sent; the message names its type.
        """
        kind = type(x)
        if x is None or kind is str or kind is bool:
            return x
        if kind is int and abs(x) < 1 << 63:
            return x
        if kind is float and math.isfinite(x):
            return x
        name = kind.__name__
        if CONTAINERS.get(name) is kind:
            return self._container(x, name)
        if _is_array(x, kind):
            return self._array(x, kind)
        if kind in PARTS:
            return [name, *map(self.pack, PARTS[kind][0](x))]
        if hasattr(kind, "__next__"):
            items: list[Any] = []
            late = raised(lambda: items.extend(islice(x, DRAWN)))  # keeps the items before an error
            return ["iterator", *map(self.pack, [late, *items])]
        return self._as_base(x, kind)

    def _as_base(self, x: Any, kind: type) -> Any:
        """Pack the value of a base class: a named tuple, for instance, is equal to a tuple."""
        for base in kind.__mro__:
            if CONTAINERS.get(base.__name__) is base:
                return self._container(x, base.__name__)
            if base in PLAIN:
                return self.pack(PLAIN[base](x))
        module = getattr(kind, "__module__", "builtins")
        if module in ("builtins", "__main__"):  # the modules of a sample's own classes
            raise TypeError(f"{module}.{kind.__qualname__}")
        return ["foreign", f"{module}.{kind.__qualname__}", bool(x)]

    def _number(self, x: Any) -> tuple[int, bool]:
        """Return a container's number, and whether this message already has the container."""
        number = self.numbers.setdefault(id(x), len(self.kept))
        if number == len(self.kept):
            self.kept.append(x)
        is_sent = number in self.sent
        self.sent.add(number)
        return number, is_sent

    def _container(self, x: Any, name: str) -> list[Any]:
        number, is_sent = self._number(x)
        if is_sent:
            return ["=", number]
        items = chain.from_iterable(x.items()) if isinstance(x, dict) else x
        return [name, number, *map(self.pack, items)]

    def _array(self, x: Any, kind: type) -> list[Any]:
        number, is_sent = self._number(x)
        if is_sent:
            return ["=", number]
        shape = x.shape if kind.__name__ == "ndarray" else None
        return ["array", number, x.dtype.str, shape, x.tobytes().hex()]


def _is_array(x: Any, kind: type) -> bool:
    """Return whether a value is numpy's array or scalar of numbers, texts or times."""
    numpy = sys.modules.get("numpy")
    if not numpy or kind.__module__ != "numpy":
        return False
    own = kind is numpy.ndarray or isinstance(x, numpy.generic)
    return own and x.dtype.kind in NUMBERS


def raised(call: Callable[[], Any]) -> list[Any] | None:
    """Call a function and describe its exception.

    Args:
        call: The function.

    Returns:
        The arguments with which `error` makes the exception again, with its text in place of
        arguments that cannot be sent. None if the function returned.
    """
    try:
        call()
    except BaseException as e:  # noqa: BLE001  as the tests would have met it
        names = [c.__name__ for c in type(e).__mro__]
        absent = e.name if isinstance(e, ImportError) else None
        try:
            Packer().pack([absent, *e.args])
        except TypeError:
            return [names, None, str(e)]
        return [names, absent, *e.args]
    return None


def error(names: list[str], absent: Any, *args: Any) -> BaseException:
    """Make the builtin exception that is closest to a class and takes its arguments.

    Args:
        names: Names of the class and its bases, most derived first.
        absent: The missing module's name, for an ImportError.
        *args: Arguments of the exception.

    Raises:
        ValueError: No name is that of an exception.
    """
    for name in names:
        found = getattr(builtins, name, None)
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
    """Make a placeholder for a library's value. It equals nothing and has the same truth value."""
    return type(name, (), {"__bool__": lambda _: bool(truth)})()


MADE: dict[str, Make] = {kind.__name__: make for kind, (_, make) in PARTS.items()}
MADE |= {"iterator": _iterator, "foreign": _foreign}


class Unpacker:
    """Rebuilds what a `Packer` has packed. Any exception means that no Packer made the message.

    Attributes:
        table: The containers by number.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        """Start a message.

        Args:
            known: Containers that are changed in place, by number.
        """
        self.table: dict[int, Any] = dict(enumerate(known))

    def unpack(self, node: Any) -> Any:
        """Rebuild a value.

        Args:
            node: What `Packer.pack` returned.
        """
        if type(node) is dict:
            raise ValueError("not a value")
        if type(node) is not list:
            return node
        name, *rest = node
        if name == "=":
            return self.table[rest[0]]
        if name == "array":
            return self._array(*rest)
        if name in CONTAINERS:
            return self._container(name, *rest)
        return MADE[name](*map(self.unpack, rest))

    def _array(self, number: int, *about: Any) -> Any:
        known = self.table.get(number)
        array = _array(*about)
        if known is not None and array.shape:
            known[...] = array
        return self.table.setdefault(number, array)

    def _container(self, name: str, number: int, *rest: Any) -> Any:
        if name not in FILLED:
            items = [self.unpack(node) for node in rest]
            return self.table.setdefault(number, CONTAINERS[name](items))
        x = self.table.setdefault(number, FILLED[name]())  # before its items, which may hold it
        items = [self.unpack(node) for node in rest]
        x.clear()
        if isinstance(x, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                x[key] = value
        elif name == "set":
            x.update(items)
        else:
            x.extend(items)
        return x


def _array(
    kind: str,
    shape: list[int] | None,
    text: str,
) -> Any:
    import numpy

    dtype = numpy.dtype(kind)
    if dtype.kind not in NUMBERS:
        raise ValueError("not an array of plain values")
    data = bytearray.fromhex(text)
    array = numpy.ndarray(() if shape is None else shape, dtype, data)
    if dtype.itemsize and 2 * array.nbytes != len(text):
        raise ValueError("not the bytes of such an array")
    return array[()] if shape is None else array


def contents(file: int) -> bytes:
    """Read a file from its start.

    Args:
        file: Its descriptor.
    """
    size = os.fstat(file).st_size
    return os.pread(file, size, 0)


def receive(line: socket.socket) -> Any:
    """Receive a message.

    Args:
        line: The connection.

    Raises:
        EOFError: The other end has closed it.
        ValueError: The message is too long, or not JSON.
    """
    size = int.from_bytes(_read(line, 4))
    if size > LONGEST:
        raise ValueError("a message that is too long")
    return json.loads(_read(line, size))


def _read(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data), socket.MSG_WAITALL)
        if not more:
            raise EOFError("the other end closed the line")
        data += more
    return data


def send(line: socket.socket, message: Any) -> None:
    """Send a message.

    Args:
        line: The connection.
        message: What JSON can hold.

    Raises:
        ValueError: The message is too long. Nothing is sent.
    """
    data = json.dumps(message).encode()
    if len(data) > LONGEST:
        raise ValueError(f"a message of {len(data)} bytes; the limit is {LONGEST}")
    line.sendall(len(data).to_bytes(4) + data)


def serve(line: socket.socket, space: dict[str, Any]) -> bytes:
    """In the sample's process: make the calls that the tests ask for, until they have ended.

    Args:
        line: Connection to the tests' process.
        space: Namespace of the solution.

    Returns:
        The tests' code, which they send at their end.
    """
    while (message := receive(line))[0]:
        name, args, named = message
        opened = Unpacker()
        args = [opened.unpack(node) for node in args]
        named = {key: opened.unpack(node) for key, node in named.items()}
        known = [opened.table[number] for number in range(len(opened.table))]
        before = json.dumps([*map(Packer(known).pack, known)])
        values: list[Any] = []
        # The name is looked up as the tests would look it up.
        late = raised(lambda: values.append(eval(name, space)(*args, **named)))  # noqa: B023
        try:
            packer = Packer(known)
            value = packer.pack(late or values[0])  # first: drawing may change the arguments, too
            state = [*map(packer.pack, known)]
            changed = state if json.dumps(state) != before else None
            send(line, ["raised" if late else "value", value, changed])
        except Exception as e:  # noqa: BLE001  whatever its class does when it is looked at
            send(line, ["no value", str(e) or type(e).__name__, None])
    return bytes.fromhex(message[1])


def stand_in(
    line: socket.socket,
    refuse: Callable[[str], NoReturn],
    name: str,
) -> Make:
    """In the tests' process: make a function that calls the sample's function of that name.

    Args:
        line: Connection to the sample's process.
        refuse: Ends the tests after what no honest sample does, with the reason.
        name: Name of the function.
    """

    def call(*args: Any, **named: Any) -> Any:
        for given in (*args, *named.values()):
            if getattr(given, "__code__", None) is call.__code__:
                # Not a function, but a name that these tests lack.
                raise NameError(f"name {given.__name__!r} is not defined")
        packer = Packer()
        try:
            packed = [packer.pack(x) for x in args]
            packed_named = {key: packer.pack(x) for key, x in named.items()}
            send(line, [name, packed, packed_named])
            kind, value, state = receive(line)
            opened = Unpacker(packer.kept)
            result = opened.unpack(value)
            for node in state or ():
                opened.unpack(node)
            if kind == "raised":
                result = error(*result)
        except Exception as e:  # noqa: BLE001  whatever the sample wrote is not an answer
            refuse(f"no answer: {type(e).__name__}: {e}")
        if kind == "no value":
            refuse(f"not comparable by value: {result}")
        if kind == "raised":
            raise result
        return result

    call.__name__ = name
    return call
