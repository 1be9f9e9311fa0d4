"""The rooms stand on levels: imports go down only, and what runs on a login node loads no torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "neox_train"
LEVELS = (
    ("__init__", "errors", "files", "locks", "holder", "lease"),
    ("config",),
    ("data", "model"),
    ("memory", "monitoring", "checkpoint"),
    ("training",),
    ("evaluation", "cluster"),
    ("commands",),
    ("cli",),
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
LOGIN_NODE_ROOMS = ("config", "memory", "monitoring", "cluster", "commands", "cli")
HEAVY = ("torch", "deepspeed", "transformers")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def own_imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of this package, wherever in the file it stands."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            names = modules if node.module == "neox_train" else [node.module or ""]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "neox_train":
                yield node.lineno, parts[1] if len(parts) > 1 and parts[1] != "__version__" else "__init__"


def test_every_room_has_a_level() -> None:
    assert {room_of(file) for file in modules()} == set(LEVEL_OF)


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_down_only(file: Path) -> None:
    room = room_of(file)
    wrong = [
        f"{file.name}:{line} imports {other}"
        for line, other in own_imports(file)
        if other != room and LEVEL_OF[other] >= LEVEL_OF[room] > 0
    ]
    assert not wrong


def test_the_lowest_level_imports_the_standard_library_only() -> None:
    for room in LEVELS[0]:
        for node in ast.walk(ast.parse((PACKAGE / f"{room}.py").read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in {*sys.stdlib_module_names, "neox_train"}, f"{room}: {name}"


def test_login_node_rooms_load_no_torch() -> None:
    files = [file for file in modules() if room_of(file) in LOGIN_NODE_ROOMS]
    names = [".".join(("neox_train", *file.relative_to(PACKAGE).with_suffix("").parts)) for file in files]
    names = [name.removesuffix(".__init__") for name in names]
    script = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        f"    heavy = [module for module in {HEAVY!r} if module in sys.modules]\n"
        "    assert not heavy, (name, heavy)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
