"""What collectives carry: calls, bytes and exposed seconds by process group and kind."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.distributed

from neox_train.config.grid import AXES, GridShape
from neox_train.training.payload import KINDS, payload_argument, wire_share

Mark = Any
"""A moment: of the process in seconds, or an event on the computing stream."""
Span = Literal["exposed_seconds", "in_flight_seconds"]


@dataclass(slots=True)
class Traffic:
    """Calls of one kind of collective in one process group, by this rank."""

    calls: int = 0
    payload_bytes: int = 0
    """Of the whole tensor: what is reduced, what is there after a gather, what is there before a scatter."""
    wire_bytes: float = 0.0
    """That one rank must send: the payload times the share of the bandwidth-optimal ring algorithm."""
    exposed_seconds: float = 0.0
    """Time that the computing stream, or under gloo the process, waited: what overlapped is not in it."""
    in_flight_seconds: float = 0.0
    """From each call to the end of its wait: no less than the collective itself took."""
    dtypes: set[torch.dtype] = field(default_factory=set)

    def describe(self) -> dict[str, Any]:
        """As metrics.jsonl has it; the rates are None where nothing took time."""
        flown = self.in_flight_seconds
        return {
            "calls": self.calls,
            "payload_bytes": self.payload_bytes,
            "wire_bytes": round(self.wire_bytes),
            "exposed_seconds": self.exposed_seconds,
            "in_flight_seconds": flown,
            "bus_gb_per_second": self.wire_bytes / flown / 1e9 if flown else None,
            "overlap_fraction": max(0.0, 1 - self.exposed_seconds / flown) if flown else None,
            "dtypes": sorted(str(dtype).removeprefix("torch.") for dtype in self.dtypes),
        }


@dataclass(slots=True)
class _Channel:
    """The calls of one kind in one group: where they are counted, and what a rank sends of a payload."""

    name: str
    wire_share: float
    """0 in a group of one rank, whose calls are not counted."""
    group: Any
    """Held, so that no other group gets its identity."""
    traffic: Traffic | None = None


class TrafficMeter:
    """Counts the collectives that go through ``torch.distributed``, DeepSpeed's own among them.

    A group is called by its axis of ``shape`` (``dp``, ``tp``, ``pp``); others are ``world`` when they hold every rank
    and ``other`` when they do not.
    """

    def __init__(self, device: torch.device, shape: GridShape) -> None:
        self._on_gpu = device.type == "cuda"
        self._group_names = {ranks: axis for axis in AXES for ranks in shape.list_groups(axis) if len(ranks) > 1}
        self._channels: dict[tuple[str, int], _Channel] = {}
        self._totals: dict[str, Traffic] = {}
        self._events: list[tuple[Traffic, Span, Any, Any]] = []

    def take(self) -> dict[str, dict[str, Any]]:
        """Totals since the last call under ``group.kind`` names; the next call starts from nothing."""
        self._read_events()
        taken = {name: traffic.describe() for name, traffic in sorted(self._totals.items())}
        self._totals = {}
        for channel in self._channels.values():
            channel.traffic = None
        return taken

    def observe(self, kind: str, held: Any, group: Any, call: Callable[[], Any]) -> Any:
        """Make ``call``, a collective of ``kind`` whose payload is ``held``, and count it.

        This stands in the way of every collective: what it costs is in docs/communication.md.
        """
        channel = self._channels.get((kind, id(group))) or self._open(kind, group)
        if channel.wire_share == 0:
            return call()
        traffic = channel.traffic or self._begin(channel)
        traffic.calls += 1
        if isinstance(held, torch.Tensor):
            size_bytes = held.nbytes
            traffic.dtypes.add(held.dtype)
        else:
            size_bytes = sum(tensor.nbytes for tensor in held)
            traffic.dtypes.update(tensor.dtype for tensor in held)
        traffic.payload_bytes += size_bytes
        traffic.wire_bytes += size_bytes * channel.wire_share
        began = self.mark()
        work = call()
        ended = self.mark()
        self.add_span(traffic, "exposed_seconds", began, ended)
        if work is not None:
            return _TimedWork(work, self, traffic, began)
        self.add_span(traffic, "in_flight_seconds", began, ended)
        return None

    def mark(self) -> Mark:
        """This moment on the computing stream or process."""
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add_span(self, traffic: Traffic, name: Span, began: Mark, ended: Mark) -> None:
        """Count the time between two marks."""
        if self._on_gpu:
            self._events.append((traffic, name, began, ended))
        elif name == "exposed_seconds":
            traffic.exposed_seconds += ended - began
        else:
            traffic.in_flight_seconds += ended - began

    def _open(self, kind: str, group: Any) -> _Channel:
        """Look up what the calls of a kind in a group have in common, once."""
        ranks = tuple(torch.distributed.get_process_group_ranks(group))
        everyone = len(ranks) == torch.distributed.get_world_size()
        name = self._group_names.get(ranks, "world" if everyone else "other")
        share = wire_share(kind, len(ranks)) if len(ranks) > 1 else 0.0
        channel = self._channels[kind, id(group)] = _Channel(f"{name}.{kind}", share, group)
        return channel

    def _begin(self, channel: _Channel) -> Traffic:
        """The totals of a kind in groups of one name, from nothing after ``take``."""
        channel.traffic = self._totals.setdefault(channel.name, Traffic())
        return channel.traffic

    def _read_events(self) -> None:
        for traffic, name, began, ended in self._events:
            ended.synchronize()
            setattr(traffic, name, getattr(traffic, name) + began.elapsed_time(ended) / 1000)
        self._events = []


class _TimedWork:
    """A collective under way; what it does not overlap shows in the time its ``wait`` takes."""

    __slots__ = ("_began", "_is_over", "_meter", "_traffic", "_work")

    def __init__(self, work: Any, meter: TrafficMeter, traffic: Traffic, began: Mark) -> None:
        self._work, self._meter, self._traffic, self._began = work, meter, traffic, began
        self._is_over = False

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        return self.time_wait(lambda: self._work.wait(*args, **kwargs))

    def time_wait(self, wait: Callable[[], Any]) -> Any:
        """Make ``wait``, which ends when the collective does; the time since the call is counted once."""
        meter, traffic = self._meter, self._traffic
        waited = meter.mark()
        result = wait()
        ended = meter.mark()
        meter.add_span(traffic, "exposed_seconds", waited, ended)
        if not self._is_over:
            self._is_over = True
            meter.add_span(traffic, "in_flight_seconds", self._began, ended)
        return result

    def get_future(self) -> Any:
        return _TimedFuture(self._work.get_future(), self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


class _TimedFuture:
    """The future of a collective under way."""

    def __init__(self, future: Any, work: _TimedWork) -> None:
        self._future, self._work = future, work

    def wait(self) -> Any:
        return self._work.time_wait(self._future.wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._future, name)


_originals: dict[str, Callable[..., Any]] = {}


def start_metering(meter: TrafficMeter) -> None:
    """Let ``meter`` see every collective of this process from now on, in the place of a meter before it."""
    stop_metering()
    for kind in KINDS:
        original = _originals[kind] = getattr(torch.distributed, kind)
        setattr(torch.distributed, kind, metered(kind, original, meter))


def stop_metering() -> None:
    """Call ``torch.distributed`` directly again."""
    while _originals:
        kind, original = _originals.popitem()
        setattr(torch.distributed, kind, original)


def metered(kind: str, original: Callable[..., Any], meter: TrafficMeter) -> Callable[..., Any]:
    """``original``, a collective of ``kind``, with ``meter`` around each call."""
    names = list(inspect.signature(original).parameters)
    payload = payload_argument(kind)
    payload_place, group_place = names.index(payload), names.index("group")

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Places, not Signature.bind: that alone takes longer than all of the counting.
        held = args[payload_place] if payload_place < len(args) else kwargs[payload]
        group = args[group_place] if group_place < len(args) else kwargs.get("group")
        return meter.observe(kind, held, group, lambda: original(*args, **kwargs))

    return call
