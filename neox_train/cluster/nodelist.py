"""Slurm's compressed lists: host names and tasks per node."""

from __future__ import annotations

import itertools
import re

from neox_train.errors import ConfigError

_NAME = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_nodes(text: str) -> list[str]:
    """Host names of a list such as ``login,rack[001,003-004]``, in order, zero padding kept.

    Raises ConfigError for a list that does not follow the form; nothing is guessed.
    """
    nodes: list[str] = []
    position = 0
    while match := _NAME.match(text, position):
        nodes += _expand_name(match.group(), text)
        position = match.end()
        if position == len(text):
            return nodes
        if text[position] != ",":
            break
        position += 1
    raise ConfigError(_unreadable(text))


def _expand_name(name: str, text: str) -> list[str]:
    parts = [[part] if index % 2 == 0 else _expand_ranges(part, text) for index, part in enumerate(_split(name))]
    return ["".join(combination) for combination in itertools.product(*parts)]


def _split(name: str) -> list[str]:
    """Plain text at even places, the inside of brackets at odd ones."""
    return re.split(r"[\[\]]", name)


def _expand_ranges(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        if not match:
            raise ConfigError(_unreadable(text))
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first):
            raise ConfigError(_unreadable(text))
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return numbers


def _unreadable(text: str) -> str:
    return f"the node list `{text}` cannot be read; expected names such as `node7` or `rack[001,003-004]`"


def tasks_per_node(text: str) -> list[int]:
    """Tasks on each node from a text such as ``2(x3),1`` (SLURM_TASKS_PER_NODE).

    Raises ConfigError for any other form.
    """
    tasks: list[int] = []
    for item in text.split(","):
        match = _TASKS.fullmatch(item)
        if not match:
            raise ConfigError(f"the tasks per node `{text}` cannot be read; expected a list such as `4(x2),1`")
        tasks += [int(match.group(1))] * int(match.group(2) or 1)
    return tasks


def require_even(text: str) -> int:
    """Tasks on every node; raises ConfigError where nodes differ, as ranks are placed by equal blocks of a node."""
    tasks = tasks_per_node(text)
    if len(set(tasks)) != 1:
        raise ConfigError(
            f"the nodes run different numbers of tasks ({text}); training needs the same number on every node, "
            "set `processes_per_node` and request whole nodes"
        )
    return tasks[0]
