"""docs/configuration.md: every key with its type, default, meaning and status."""

from __future__ import annotations

from neox_train.config.block_table import BlockEntry, list_blocks
from neox_train.config.key_table import KeyEntry, list_sections
from neox_train.config.retired import RETIRED

_HEAD = """# Configuration keys

Every key of GPT-NeoX and the few that are new here, written from the schema by `neox-train config reference`.
`neox-train config explain KEY` prints one entry. Unknown keys are errors.
Several files are read as one: a key has the same value in all of them, or is laid over them by `--override` or by
`overrides:` of a pipeline's run ([vary a shipped size](models.md#vary-a-shipped-size)). Hyphens in
names are underscores.

- **in force**: does what it says. Where only some values are built they are listed; training refuses the others.
- **accepted, without effect here**: harmless (a fusion that is always on, a launcher's detail); noted once when set.
- **refused**: known, not built. A file with it can be shown; training refuses it, but for the default and values that
  switch nothing on (`false`, `{}`, `{"enabled": false}`, `{"device": "none"}`).
- **computed from other keys**: written to a run's `config.yml`.
"""


def render_reference() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD]
    for title, entries in list_sections():
        parts.append(f"## {title}\n\n| key | type | default | meaning | status |\n|---|---|---|---|---|")
        parts[-1] += "".join("\n" + _render_row(entry) for entry in entries) + "\n"
    for path, meaning, inner in list_blocks():
        parts.append(
            f"## Inside `{path}`\n\n{meaning.replace('``', '`')}\n\n"
            "| key | type | default | meaning | status |\n|---|---|---|---|---|"
        )
        parts[-1] += "".join("\n" + _render_inner(entry) for entry in inner) + "\n"
    parts.append("## Names of other releases\n\n| name | what happens |\n|---|---|")
    parts[-1] += "".join(f"\n| `{name}` | {_escape(RETIRED[name].sentence)} |" for name in sorted(RETIRED)) + "\n"
    return "\n".join(parts)


def _render_row(entry: KeyEntry) -> str:
    status = f"{entry.state}; instead: {entry.remedy}" if entry.remedy else entry.state
    default = entry.default if entry.default == "required" else f"`{entry.default}`"
    cells = [f"`{entry.name}`", entry.type, default, entry.meaning, status]
    return "| " + " | ".join(map(_escape, cells)) + " |"


def _render_inner(entry: BlockEntry) -> str:
    status = f"{entry.status}; instead: {entry.remedy}" if entry.remedy else entry.status
    cells = [f"`{entry.path.rpartition('.')[2]}`", entry.type, entry.default, entry.meaning, status]
    return "| " + " | ".join(map(_escape, cells)) + " |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "\\n")
