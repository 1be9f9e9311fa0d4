"""What collectives carry: calls, bytes and exposed seconds by process group and kind."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.distributed

from neox_train.config.grid import AXES, GridShape
from neox_train.training.payload import KINDS, count_payload

Mark = Any
"""A moment: of the process in seconds, or an event on the computing stream."""
Span = Literal["exposed_seconds", "in_flight_seconds"]


@dataclass(slots=True)
class Traffic:
    """Calls of one kind of collective in one process group, by this rank."""

    calls: int = 0
    payload_bytes: int = 0
    wire_bytes: float = 0.0
    exposed_seconds: float = 0.0
    """Time that the computing stream, or under gloo the process, waited: what overlapped is not in it."""
    in_flight_seconds: float = 0.0
    """From each call to the end of its wait: no less than the collective itself took."""
    dtypes: set[str] = field(default_factory=set)

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
            "dtypes": sorted(self.dtypes),
        }


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
        self._events: list[tuple[Traffic, Span, Any, Any]] = []

    def take(self) -> dict[str, dict[str, Any]]:
        """Totals since the last call under ``group.kind`` names; the next call starts from nothing."""
        self._read_events()
        taken = {name: traffic.describe() for name, traffic in sorted(self._totals.items())}
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
        began = self.mark()
        with self.exposed(traffic):
            work = call()
        if work is not None:
            return _TimedWork(work, self, traffic, began)
        self.add_flight(traffic, began)
        return None

    @contextmanager
    def exposed(self, traffic: Traffic) -> Iterator[None]:
        """Add to ``traffic`` the time between the two ends of the block on the computing stream or process."""
        began = self.mark()
        yield
        self._add_span(traffic, "exposed_seconds", began)

    def mark(self) -> Mark:
        """This moment on the computing stream or process."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add_flight(self, traffic: Traffic, began: Mark) -> None:
        """Count a collective called at ``began`` as over by now."""
        self._add_span(traffic, "in_flight_seconds", began)

    def _add_span(self, traffic: Traffic, name: Span, began: Mark) -> None:
        ended = self.mark()
        if isinstance(began, float) and isinstance(ended, float):
            setattr(traffic, name, getattr(traffic, name) + ended - began)
        else:
            self._events.append((traffic, name, began, ended))

    def _describe(self, group: Any) -> tuple[str, int]:
        key = id(group)
        if key not in self._known:
            ranks = tuple(torch.distributed.get_process_group_ranks(group))
            everyone = len(ranks) == torch.distributed.get_world_size()
            name = self._group_names.get(ranks, "world" if everyone else "other")
            self._known[key] = (name, len(ranks))
        return self._known[key]

    def _read_events(self) -> None:
        for traffic, name, began, ended in self._events:
            ended.synchronize()
            setattr(traffic, name, getattr(traffic, name) + began.elapsed_time(ended) / 1000)
        self._events = []


class _TimedWork:
    """A collective under way; what it does not overlap shows in the time its ``wait`` takes."""

    def __init__(self, work: Any, meter: TrafficMeter, traffic: Traffic, began: Mark) -> None:
        self._work, self._meter, self._traffic, self._began = work, meter, traffic, began
        self._is_over = False

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        with self._meter.exposed(self._traffic):
            result = self._work.wait(*args, **kwargs)
        self.land()
        return result

    def land(self) -> None:
        """Count the time since the call, once."""
        if not self._is_over:
            self._is_over = True
            self._meter.add_flight(self._traffic, self._began)

    def get_future(self) -> Any:
        return _TimedFuture(self._work.get_future(), self)

    def wait_for(self, future: Any) -> Any:
        """The value of this work's future."""
        with self._meter.exposed(self._traffic):
            value = future.wait()
        self.land()
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


class _TimedFuture:
    """The future of a collective under way."""

    def __init__(self, future: Any, work: _TimedWork) -> None:
        self._future, self._work = future, work

    def wait(self) -> Any:
        return self._work.wait_for(self._future)

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
    bind = inspect.signature(original).bind

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return meter.observe(kind, bind(*args, **kwargs).arguments, lambda: original(*args, **kwargs))

    return call
