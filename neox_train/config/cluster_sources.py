"""Values of a cluster file that come from elsewhere: ``--config`` on the command line, and the environment."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from neox_train.config.reader import Document, Place, parse_yaml
from neox_train.errors import ConfigError

ENVIRONMENT_PREFIX = "NEOX_TRAIN_"
SITE_KEYS = ("account", "partition", "qos", "constraint", "reservation", "mail_user", "results", "cache")
"""Keys that differ between people on one cluster: NEOX_TRAIN_ACCOUNT and so on fill those that a file leaves out."""


def read_assignments(entries: Sequence[str], keys: Collection[str], text_keys: Collection[str]) -> Document:
    """Values typed as ``KEY=VALUE``, of the keys given only; text is kept character for character.

    Snakemake turns ``account=0123456`` into a number before a workflow sees it; its raw entries still have it.
    """
    values, places = {}, dict[str, Place]()
    for entry in entries:
        key, equals, text = entry.partition("=")
        if not equals or not key:
            raise ConfigError(f"--config {entry} is not KEY=VALUE; write, for example, account=NAME")
        if key not in keys:
            continue
        name = f"--config {key}"
        try:
            document = parse_yaml(f"{key}: {text}", name)
        except ConfigError:
            if key not in text_keys:
                raise
            document = Document(name, {key: text}, {key: Place(name, 0, text)})
        values.update(document.values)
        places.update({path: Place(name, 0, place.text) for path, place in document.places.items()})
    return Document("--config", values, places)


def read_environment(values: Mapping[str, object]) -> dict[str, str]:
    """Site values that ``values`` leaves out and the environment has (``NEOX_TRAIN_ACCOUNT``)."""
    found = {key: os.environ.get(ENVIRONMENT_PREFIX + key.upper()) for key in SITE_KEYS}
    return {key: text for key, text in found.items() if text and values.get(key) is None}
