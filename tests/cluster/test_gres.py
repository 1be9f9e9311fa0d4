from pathlib import Path

import pytest

from neox_train.cluster.gres import UNTYPED, NodeGpus, parse_gres
from neox_train.errors import ConfigError

CASES = Path(__file__).parent.parent / "cases" / "13-gres.tsv"
WANTED = {
    "gpu:8": NodeGpus({UNTYPED: 8}),
    "gpu:8(S:0-3)": NodeGpus({UNTYPED: 8}),
    "gpu:a100:8(S:0-1)": NodeGpus({"a100": 8}),
    "gpu:h100:4(S:0,2),nvme:1": NodeGpus({"h100": 4}),
    "lustre:1,gpu:a100:2(IDX:0-1)": NodeGpus({"a100": 2}),
    "gpu:turing:1,gpu:ampere:3": NodeGpus({"turing": 1, "ampere": 3}),
    "gpu:ampere:6(S:0-1),gpu:1g.10gb:28(S:0-1)": NodeGpus({"ampere": 6}, {"1g.10gb": 28}),
    "(null)": NodeGpus(),
    "shard:32": NodeGpus(),
}


def test_every_row_of_the_case_is_wanted_here() -> None:
    rows = [line.split("\t")[0] for line in CASES.read_text().splitlines() if line[:1] not in ("", "#")]
    assert rows == list(WANTED)


@pytest.mark.parametrize(("text", "wanted"), WANTED.items())
def test_gpus_of_a_node(text: str, wanted: NodeGpus) -> None:
    assert parse_gres(text) == wanted


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("gpu", {UNTYPED: 1}),
        ("gpu:h100", {"h100": 1}),
        ("gpu:nvidia_a100-sxm4-80gb:4(S:0-7)", {"nvidia_a100-sxm4-80gb": 4}),
        ("gpu:h100:4,gpu:h100:4", {"h100": 8}),
        ("gpu_mem:40G,gpu:2", {UNTYPED: 2}),
        ("gpu:nvidia_a100_3g.20gb:2", {}),
        ("", {}),
    ],
)
def test_other_forms(text: str, whole: dict[str, int]) -> None:
    assert parse_gres(text).whole == whole


def test_descriptions() -> None:
    assert parse_gres("gpu:turing:1,gpu:ampere:3").describe() == "1 turing and 3 ampere"
    assert parse_gres("gpu:1g.10gb:28").describe() == "no GPU (28 MIG slices)"


@pytest.mark.parametrize("text", ["gpu:h100:many", "gpu::4", "gpu:a:b:c"])
def test_what_cannot_be_read_is_a_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read; expected entries such as gpu:8"):
        parse_gres(text)
