"""benchmarks/tokenize.py starts the benchmark, and takes nothing from who wants the standard library's tokenize."""

import subprocess
import sys
import tokenize
from pathlib import Path


def test_the_benchmark_named_like_a_module_of_the_standard_library_hides_nothing(repository: Path) -> None:
    def run(*arguments: str, place: Path = repository) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60, check=True).stdout

    script = "import tokenize, inspect, linecache; print(tokenize.__file__, tokenize.generate_tokens.__module__)"
    assert run("-c", script, place=repository / "benchmarks").split() == [tokenize.__file__, "tokenize"]
    for start in (["benchmarks/tokenize.py"], ["-m", "benchmarks.tokenize"]):
        assert "--datatrove-python" in run(*start, "--help")
