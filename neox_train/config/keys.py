"""How a key of the schema is declared: default, one-line meaning, and what this project does with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from pydantic.fields import FieldInfo

Status = Literal["implemented", "harmless", "refused", "derived"]


def implemented(default: Any, meaning: str, **rules: Any) -> Any:
    """A key that does what it says."""
    return _declare("implemented", default, meaning, rules)


def harmless(default: Any, meaning: str, **rules: Any) -> Any:
    """A key without effect here, by nature (a fusion that is always on, a launcher's detail): noted once when set."""
    return _declare("harmless", default, meaning, rules)


def refused(default: Any, meaning: str, *, remedy: str, inactive: tuple[Any, ...] = (), **rules: Any) -> Any:
    """A known key that is not built: loads, but training refuses it unless its value means "off".

    Off are the default, ``inactive``, and for a key that is absent by default what ``is_off`` says.
    """
    extra = {"remedy": remedy, "inactive": [default, *inactive]}
    return _declare("refused", default, meaning, rules, extra)


def derived(default: Any, meaning: str, **rules: Any) -> Any:
    """A value computed from others; written to config.yml and checked when it is read back."""
    return _declare("derived", default, meaning, rules)


def _declare(
    status: Status, default: Any, meaning: str, rules: dict[str, Any], extra: dict[str, Any] | None = None
) -> Any:
    more = {"status": status, **(extra or {})}
    if isinstance(default, (dict, list)):
        return Field(
            default_factory=lambda: type(default)(default), description=meaning, json_schema_extra=more, **rules
        )
    return Field(default, description=meaning, json_schema_extra=more, **rules)


def read_status(field: FieldInfo) -> Status:
    """Status a field was declared with."""
    return _extra(field)["status"]


def read_remedy(field: FieldInfo) -> str:
    """What to set instead of a refused key; empty when there is nothing to say."""
    return _extra(field).get("remedy", "")


def is_inactive(field: FieldInfo, value: Any) -> bool:
    """Whether a refused key's value switches nothing on."""
    if field.default is None and is_off(value):
        return True
    inactive = _extra(field).get("inactive", [])
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in inactive)


def find_refused(fields: Mapping[str, FieldInfo], values: Mapping[str, Any]) -> list[tuple[str, FieldInfo]]:
    """Refused keys whose ``values`` switch something on, in the order of ``fields``."""
    return [
        (name, field)
        for name, field in fields.items()
        if name in values and read_status(field) == "refused" and not is_inactive(field, values[name])
    ]


def is_off(value: Any) -> bool:
    """Whether a value of a key that is absent by default switches nothing on.

    ``false``, ``{}``, ``[]``, an empty text, ``{enabled: false}``, and DeepSpeed's ``{device: none}``.
    """
    if isinstance(value, dict):
        return not value or value.get("enabled") is False or ("device" in value and value["device"] in (None, "none"))
    return value is None or value is False or value in ("", [])


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {}
