"""Timers around functions of vLLM, put there while its modules are imported. Runs inside vLLM's processes.

A folder holds what both sides need: `table.json`, the functions; `switch`, one byte that turns the timers on
and off in all processes at once; and for each process `PID.spans`, a ring of records that the other side
reads at any time, and `PID.names`, what became of each function's name. Nothing of vLLM is changed on disk,
and a timer passes arguments, results and exceptions through as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import itertools
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

RECORD = struct.Struct("<qqqiii4x")
"""Start and end (ns of the monotonic clock), bytes, call number, copies, copies from page-locked memory."""
RECORDS = 65536
TABLE, SWITCH = "table.json", "switch"
TIMED, ABSENT, DEVICE = "timed", "absent", "device"
_PR_SET_PTRACER, _ANY = 0x59616D61, -1

Size = tuple[int, int, int]
"""Bytes, copies, copies from page-locked memory."""
_NOTHING: Size = (0, 0, 0)


class Recorder:
    """Writes this process's records; a forked child writes its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with (folder / SWITCH).open("rb") as file:
            self.switch = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
        self._ring: mmap.mmap | None = None
        self._next = itertools.count().__next__
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._ring, self._next = None, itertools.count().__next__

    def record(self, call: int, start: int, end: int, size: Size = _NOTHING) -> None:
        """Keeps one call. The oldest record goes where the ring is full."""
        ring = self._ring or self._open()
        if ring is None:
            return
        nbytes, copies, pinned = size
        RECORD.pack_into(ring, self._next() % RECORDS * RECORD.size, start, end, nbytes, call, copies, pinned)

    def name(self, text: str) -> None:
        """Notes what became of a name."""
        with (self._folder / f"{os.getpid()}.names").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def _open(self) -> mmap.mmap | None:
        """The ring; None where there is no room for it, and nothing is kept."""
        with (
            contextlib.suppress(OSError),
            (self._folder / f"{os.getpid()}.spans").open("a+b") as file,
        ):
            # Room that is only promised would kill the process where the disk is full.
            os.posix_fallocate(file.fileno(), 0, RECORDS * RECORD.size)
            self._ring = mmap.mmap(file.fileno(), RECORDS * RECORD.size)
        return self._ring


class Timers:
    """Wraps functions by the table of `folder`."""

    def __init__(self, folder: Path) -> None:
        table = json.loads((folder / TABLE).read_text("utf-8"))
        self._recorder = Recorder(folder)
        self._model: list[dict[str, Any]] = table["model"]
        self._calls: dict[str, list[dict[str, Any]]] = {}
        for call in table["calls"]:
            self._calls.setdefault(call["name"].partition(":")[0], []).append(call)
        self._loaders: set[str] = set(table["loaders"])
        for name in self._loaders:
            self._calls.setdefault(name.partition(":")[0], []).append({"name": name})

    def __contains__(self, module: str) -> bool:
        return module in self._calls

    def put_on(self, module: ModuleType) -> None:
        """Wraps what the table names in a module that has just been executed."""
        for call in self._calls[module.__name__]:
            path = call["name"].partition(":")[2].split(".")
            wrap = functools.partial(self._load if call["name"] in self._loaders else self._time, call)
            owner: Any = module
            for part in path[:-1]:
                owner = getattr(owner, part, None)
            self._put(call["name"], owner, path[-1], wrap)

    def _put(self, call: str, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Any]) -> None:
        """Wraps one attribute, and in a class those of its subclasses, also of later ones."""

        def put(owner: Any) -> bool:
            found = owner is not None and _replace(owner, name, wrap)
            if found:
                self._recorder.name(f"{TIMED} {call}")
            return found

        found = put(owner)
        if isinstance(owner, type):
            _watch_subclasses(owner, put)
            for sub in _subclasses(owner):
                found |= put(sub)
        if not found:
            self._recorder.name(f"{ABSENT} {call}")

    def _time(self, call: dict[str, Any], function: Callable[..., Any]) -> Any:
        number, counter, device = call["number"], _COUNTERS.get(call.get("counts")), call.get("device")
        recorder, switch, clock = self._recorder, self._recorder.switch, time.perf_counter_ns

        def done(start: int, size: Size = _NOTHING) -> None:
            if device:
                _synchronize()
            recorder.record(number, start, clock(), size)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def later(*args: Any, **kwargs: Any) -> Any:
                if not switch[0]:
                    return await function(*args, **kwargs)
                start = clock()
                try:
                    return await function(*args, **kwargs)
                finally:
                    done(start)

            return later
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def steps(*args: Any, **kwargs: Any) -> Generator[Any, None, Any]:
                with contextlib.closing(function(*args, **kwargs)) as generator:
                    while True:
                        start = clock()
                        try:
                            value = next(generator)
                        except StopIteration as stop:
                            return stop.value
                        finally:
                            if switch[0]:
                                done(start)
                        yield value

            return steps

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not switch[0]:
                return function(*args, **kwargs)
            start = clock()
            size = _NOTHING
            try:
                result = function(*args, **kwargs)
                if counter is not None:
                    # What is counted in one vLLM may look otherwise in another: no request may fail of it.
                    with contextlib.suppress(Exception):
                        size = counter(args, kwargs, result)
                return result
            finally:
                done(start, size)

        return timed

    def _load(self, call: dict[str, Any], function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def loaded(runner: Any, *args: Any, **kwargs: Any) -> Any:
            result = function(runner, *args, **kwargs)
            self._put_on_model(getattr(runner, "model", None))
            with contextlib.suppress(Exception):
                self._recorder.name(f"{DEVICE} {_device(runner.device)}")
            return result

        return loaded

    def _put_on_model(self, model: Any) -> None:
        for call in self._model:
            wrap = functools.partial(self._time, call)
            found = False
            with contextlib.suppress(Exception):  # a model may have no mapping, or refuse to say
                for owner, name in _owners(model, call["attribute"]):
                    setattr(owner, name, wrap(getattr(owner, name)))
                    found = True
            self._recorder.name(f"{TIMED if found else ABSENT} {call['name']}")


def install(folder: Path) -> None:
    """Puts the timers in place for every module that is imported from now on."""
    # A sampler that is not this process's parent may look in, where the kernel would ask for that (Yama).
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_long(_ANY), 0, 0, 0)
    sys.meta_path.insert(0, _Finder(Timers(folder)))


class _Finder(MetaPathFinder):
    """Finds nothing itself: has the timers put on modules that the others find."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._timers:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def executed(module: ModuleType, execute: Callable[[ModuleType], None] = execute) -> None:
                    execute(module)
                    self._timers.put_on(module)

                spec.loader.exec_module = executed  # type: ignore[method-assign]
                return spec
        return None


def _replace(owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Any]) -> bool:
    raw = vars(owner).get(name)
    if isinstance(raw, staticmethod | classmethod):
        setattr(owner, name, type(raw)(wrap(raw.__func__)))
    elif inspect.isfunction(raw):
        setattr(owner, name, wrap(raw))
    else:
        return False
    return True


def _subclasses(owner: type) -> Iterator[type]:
    for sub in owner.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _watch_subclasses(owner: type[Any], seen: Callable[[type], object]) -> None:
    own = vars(owner).get("__init_subclass__")

    def init_subclass(sub: Any, /, **kwargs: Any) -> None:
        if own is None:
            super(owner, sub).__init_subclass__(**kwargs)
        else:
            own.__func__(sub, **kwargs)
        seen(sub)

    owner.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment]


def _owners(model: Any, attribute: str) -> Iterator[tuple[Any, str]]:
    """Where an entry of the table stands in the loaded model: (object, attribute) of each callable."""
    kind, _, key = attribute.rpartition(".")
    if not kind:
        if callable(getattr(model, key, None)):
            yield model, key
        return
    mapping = model.get_mm_mapping() if hasattr(model, "get_mm_mapping") else None
    for prefix in getattr(mapping, key, None) or ():
        module = model
        for part in prefix.strip(".").split("."):
            module = getattr(module, part, None)
        if module is not None:
            yield module, "forward"


def _device(device: Any) -> str:
    torch = sys.modules["torch"]
    return (
        f"{device.type} {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device.type)
    )


def _synchronize() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(value, "nbytes") and hasattr(value, "is_pinned"):
        yield value
        return
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for part in value:
            yield from _tensors(part)


def _count_wire(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Size:
    return sum(memoryview(part).nbytes for part in result), 0, 0


def _count_features(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Size:
    request = args[1] if len(args) > 1 else kwargs["request"]
    items = [feature.data for feature in request.mm_features or () if feature.data is not None]
    values = [element.data for item in items for element in item.values()]
    return sum(tensor.nbytes for tensor in _tensors(values)), 0, 0


def _count_h2d(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Size:
    device = args[1] if len(args) > 1 else kwargs.get("device")
    if device is None:
        return _NOTHING
    tensors = list(_tensors(args[0]))
    pinned = len(tensors) if kwargs.get("pin_memory") else 0
    return sum(tensor.nbytes for tensor in tensors), len(tensors), pinned


def _count_arena(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Size:
    return args[0]._host.nbytes, 1, int(args[0]._pinned)


_COUNTERS: dict[Any, Callable[[tuple[Any, ...], dict[str, Any], Any], Size]] = {
    "wire": _count_wire,
    "features": _count_features,
    "h2d": _count_h2d,
    "arena": _count_arena,
}
