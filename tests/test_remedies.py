"""What a sentence tells a person to set is accepted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from neox_train.config.keys import read_status
from neox_train.config.schema import NeoxKeys

PACKAGE = Path(__file__).parent.parent / "neox_train"
WITHOUT_EFFECT = {
    name for name, field in NeoxKeys.model_fields.items() if read_status(field) in ("refused", "harmless")
}
ADVICE = re.compile(r"(?:set|put|use|give|add|lower|raise|try) `?([a-z][a-z0-9_]+)")


def read_sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is said, docstrings left out; values stand as {}."""
    holders = (ast.Module, ast.FunctionDef, ast.ClassDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, holders)]
    told_apart = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told_apart:
            yield node.lineno, node.value


def find_empty_advice(source: str) -> set[tuple[int, str]]:
    sentences = read_sentences(ast.parse(source))
    return {(line, name) for line, text in sentences for name in ADVICE.findall(text) if name in WITHOUT_EFFECT}


def test_no_remedy_names_a_key_that_is_refused_or_without_effect() -> None:
    assert find_empty_advice('raise ConfigError(f"{x} is new; set no_load_optim: true")') == {(1, "no_load_optim")}
    wrong = {str(file): found for file in PACKAGE.rglob("*.py") if (found := find_empty_advice(file.read_text()))}
    assert wrong == {}
