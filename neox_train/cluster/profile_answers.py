"""Answers that make a profile: given on the command line, asked of the person, or the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from neox_train.errors import ConfigError

Prompt = Callable[[str, str | None, Sequence[str]], str]
"""Question, default, options -> answer."""


class Answers:
    """Where each answer comes from: ``given`` options first, then ``prompt``, without one the default."""

    def __init__(self, given: Mapping[str, str | int | None], prompt: Prompt | None = None) -> None:
        self._given = {key: str(value) for key, value in given.items() if value is not None}
        self._prompt = prompt

    def has(self, key: str) -> bool:
        """Whether the command line gave this one."""
        return key in self._given

    def choose(self, key: str, question: str, options: Sequence[str], *, default: str | None) -> str:
        """One of the options; raises ConfigError for another, and where nobody answers and there is no safe default."""
        if key in self._given:
            answer = self._given[key]
        elif self._prompt:
            answer = self._prompt(question, default, options)
        elif default is not None:
            answer = default
        else:
            raise ConfigError(f"{question}: {' or '.join(options)}? Say it with {_option(key)}")
        if answer not in options:
            raise ConfigError(f"{_option(key)} is '{answer}'; here it is one of {', '.join(options)}")
        return answer

    def text(self, key: str, question: str, *, default: str) -> str:
        """Any text; empty is nothing."""
        if key in self._given:
            return self._given[key]
        return self._prompt(question, default, ()).strip() if self._prompt else default

    def number(self, key: str, question: str, *, default: int, most: int | None = None) -> int:
        """A whole number from 1 to ``most``; raises ConfigError for anything else."""
        answer = self.text(key, question, default=str(default))
        if not answer.isdigit() or int(answer) < 1 or (most is not None and int(answer) > most):
            limit = "at least 1" if most is None else f"1 to {most}"
            raise ConfigError(f"{_option(key)} is '{answer}'; a whole number, {limit}, is wanted")
        return int(answer)


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")
