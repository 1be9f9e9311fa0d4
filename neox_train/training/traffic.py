"""What collectives carry: calls, bytes and exposed seconds by process group and kind."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed

from neox_train.config.grid import AXES, GridShape
from neox_train.training.payload import KINDS, count_payload


@dataclass(slots=True)
class Traffic:
    """Calls of one kind of collective in one process group, by this rank."""

    calls: int = 0
    payload_bytes: int = 0
    wire_bytes: float = 0.0
    exposed_seconds: float = 0.0
    """Time that the computing stream, or under gloo the process, waited: what overlapped is not in it."""
    dtypes: set[str] = field(default_factory=set)


class TrafficMeter:
    """Counts the collectives that go through ``torch.distributed``, DeepSpeed's own among them.

    A group is called by its axis of ``shape`` (``dp``, ``tp``, ``pp``); others are ``world`` when they hold every rank
    and ``other`` when they do not.
    """

    def __init__(self, device: torch.device, shape: GridShape) -> None:
        self._device = device
        self._group_names = {ranks: axis for axis in AXES for ranks in shape.list_groups(axis) if len(ranks) > 1}
        self._known: dict[int, tuple[str, int]] = {}
        self._totals: dict[str, Traffic] = {}
        self._events: list[tuple[Traffic, torch.cuda.Event, torch.cuda.Event]] = []

    def take(self) -> dict[str, dict[str, Any]]:
        """Totals since the last call under ``group.kind`` names; the next call starts from nothing."""
        self._read_events()
        taken = {
            name: {
                "calls": traffic.calls,
                "payload_bytes": traffic.payload_bytes,
                "wire_bytes": round(traffic.wire_bytes),
                "exposed_seconds": traffic.exposed_seconds,
                "dtypes": sorted(traffic.dtypes),
            }
            for name, traffic in sorted(self._totals.items())
        }
        self._totals = {}
        return taken

    def observe(self, kind: str, arguments: Mapping[str, Any], call: Callable[[], Any]) -> Any:
        """Make ``call``, a collective of ``kind`` with these arguments, and count it."""
        group_name, group_size = self._describe(arguments.get("group"))
        if group_size < 2:
            return call()
        payload = count_payload(kind, arguments, group_size)
        traffic = self._totals.setdefault(f"{group_name}.{kind}", Traffic())
        traffic.calls += 1
        traffic.payload_bytes += payload.payload_bytes
        traffic.wire_bytes += payload.wire_bytes
        traffic.dtypes.add(payload.dtype)
        with self.exposed(traffic):
            work = call()
        return work if work is None else _TimedWork(work, self, traffic)

    @contextmanager
    def exposed(self, traffic: Traffic) -> Iterator[None]:
        """Add to ``traffic`` the time between the two ends of the block on the computing stream or process."""
        if self._device.type != "cuda":
            began = time.perf_counter()
            yield
            traffic.exposed_seconds += time.perf_counter() - began
            return
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        yield
        end.record()
        self._events.append((traffic, begin, end))

    def _describe(self, group: Any) -> tuple[str, int]:
        key = id(group)
        if key not in self._known:
            ranks = tuple(torch.distributed.get_process_group_ranks(group))
            everyone = len(ranks) == torch.distributed.get_world_size()
            name = self._group_names.get(ranks, "world" if everyone else "other")
            self._known[key] = (name, len(ranks))
        return self._known[key]

    def _read_events(self) -> None:
        for traffic, begin, end in self._events:
            end.synchronize()
            traffic.exposed_seconds += begin.elapsed_time(end) / 1000
        self._events = []


class _TimedWork:
    """A collective under way; what it does not overlap shows in the time its ``wait`` takes."""

    def __init__(self, work: Any, meter: TrafficMeter, traffic: Traffic) -> None:
        self._work, self._meter, self._traffic = work, meter, traffic

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        with self._meter.exposed(self._traffic):
            return self._work.wait(*args, **kwargs)

    def get_future(self) -> Any:
        return _TimedFuture(self._work.get_future(), self._meter, self._traffic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


class _TimedFuture:
    """The future of a collective under way."""

    def __init__(self, future: Any, meter: TrafficMeter, traffic: Traffic) -> None:
        self._future, self._meter, self._traffic = future, meter, traffic

    def wait(self) -> Any:
        with self._meter.exposed(self._traffic):
            return self._future.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._future, name)


_originals: dict[str, Callable[..., Any]] = {}


def start_metering(meter: TrafficMeter) -> None:
    """Let ``meter`` see every collective of this process from now on, in the place of a meter before it."""
    stop_metering()
    for kind in KINDS:
        original = _originals[kind] = getattr(torch.distributed, kind)
        setattr(torch.distributed, kind, _metered(kind, original, meter))


def stop_metering() -> None:
    """Call ``torch.distributed`` directly again."""
    while _originals:
        kind, original = _originals.popitem()
        setattr(torch.distributed, kind, original)


def _metered(kind: str, original: Callable[..., Any], meter: TrafficMeter) -> Callable[..., Any]:
    bind = inspect.signature(original).bind

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return meter.observe(kind, bind(*args, **kwargs).arguments, lambda: original(*args, **kwargs))

    return call
