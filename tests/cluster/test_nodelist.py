from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neox_train.cluster.nodelist import expand_nodes, require_even, tasks_per_node
from neox_train.errors import ConfigError

CASES = Path(__file__).parent.parent / "cases"


def rows(name: str) -> list[list[str]]:
    lines = (CASES / name).read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(("text", "first", "nodes"), rows("11-nodelists.tsv"))
def test_node_lists_of_real_clusters(text: str, first: str, nodes: str) -> None:
    assert expand_nodes(text) == nodes.split(",")
    assert expand_nodes(text)[0] == first


@pytest.mark.parametrize(
    "text", ["gpu[01-", "gpu01]", "gpu[3-1]", "gpu[a-b]", "gpu[1,]", "a,,b", "a,", ",a", "", "a b", "n[1-2-3]"]
)
def test_unreadable_list_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand_nodes(text)
    assert f"`{text}`" in str(caught.value)


def test_two_brackets_in_one_name_multiply() -> None:
    assert expand_nodes("r[1-2]n[08-09]x") == ["r1n08x", "r1n09x", "r2n08x", "r2n09x"]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=30, unique=True))
def test_padded_ranges_give_back_every_number(numbers: list[int]) -> None:
    inside = ",".join(f"{number:03}" for number in numbers)
    assert expand_nodes(f"node[{inside}]") == [f"node{number:03}" for number in numbers]


@pytest.mark.parametrize(("text", "tasks", "world"), rows("12-tasks-per-node.tsv"))
def test_tasks_per_node(text: str, tasks: str, world: str) -> None:
    assert tasks_per_node(text) == [int(count) for count in tasks.split(",")]
    assert sum(tasks_per_node(text)) == int(world)


@pytest.mark.parametrize("text", ["2(x3),1", "8,4(x2),1"])
def test_uneven_placement_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_even(text)
    assert text in str(caught.value)


def test_even_placement_gives_the_count() -> None:
    assert require_even("4(x2)") == 4


@pytest.mark.parametrize("text", ["", "x2", "2(x3", "2,(x3)", "two"])
def test_unreadable_tasks_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        tasks_per_node(text)
