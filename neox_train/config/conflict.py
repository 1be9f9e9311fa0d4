"""Keys that contradict each other or a rule: the error knows its keys, so that their places can be named."""

from __future__ import annotations

from collections.abc import Mapping

from neox_train.config.reader import Place, find_place
from neox_train.errors import ConfigError


class ConflictError(ConfigError):
    """A rule broken by the values of ``keys`` (dotted paths)."""

    def __init__(self, sentence: str, *keys: str) -> None:
        super().__init__(sentence)
        self.keys = keys

    def locate(self, places: Mapping[str, Place], where: str) -> ConfigError:
        """The same sentence led by the file and line of every key that is written somewhere."""
        return ConfigError(f"{name_places(places, *self.keys) or where}: {self}")


def lead(places: Mapping[str, Place], sentence: str, *keys: str) -> str:
    """The sentence behind the file and line of ``keys`` (dotted paths); as it is where none is written."""
    written = name_places(places, *keys)
    return f"{written}: {sentence}" if written else sentence


def name_places(places: Mapping[str, Place], *keys: str) -> str:
    """File and line of every key (dotted path) that is written somewhere, joined by "and"; empty where none is."""
    written = (find_place(places, key) for key in keys)
    return " and ".join(dict.fromkeys(str(place) for place in written if place is not None))
