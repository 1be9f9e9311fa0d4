from __future__ import annotations

from pathlib import Path

from neox_train.config.merge import merge_documents, parse_override, set_overrides
from neox_train.config.reader import Document, read_yaml
from tests.config.files import refuse


def read(folder: Path, name: str, text: str) -> Document:
    (folder / name).write_text(text)
    return read_yaml(folder / name, fold_hyphens=True)


def test_keys_of_all_files_with_their_places(tmp_path: Path) -> None:
    merged = merge_documents([read(tmp_path, "a.yml", "x: 1\n"), read(tmp_path, "b.yml", "\ny: {z: 2}\nx: 1\n")])
    assert merged.values == {"x": 1, "y": {"z": 2}}
    assert str(merged.places["y.z"]) == f"{tmp_path / 'b.yml'}, line 2"
    assert str(merged.places["x"]) == f"{tmp_path / 'a.yml'}, line 1"


def test_two_files_that_disagree_are_both_named(tmp_path: Path) -> None:
    first, second = read(tmp_path, "a.yml", "train-iters: 1\n"), read(tmp_path, "b.yml", "\ntrain_iters: 2\n")
    sentence = refuse(lambda: merge_documents([first, second]))
    assert "train_iters is 1 in" in sentence and "a.yml, line 1" in sentence
    assert "2 in" in sentence and "b.yml, line 2" in sentence


def test_two_files_may_disagree_about_what_is_laid_over_both(tmp_path: Path) -> None:
    files = [read(tmp_path, "a.yml", "seed: 1\no: {x: 1}\n"), read(tmp_path, "b.yml", "seed: 2\no: {x: 2}\n")]
    assert "o is" in refuse(lambda: merge_documents(files, ["seed", "o.x"]))
    merged = merge_documents(files, ["seed", "o"])
    assert set_overrides(merged, {"seed": 3, "o": {}}).values == {"seed": 3, "o": {}}


def test_one_and_true_are_not_the_same_value(tmp_path: Path) -> None:
    first, second = read(tmp_path, "a.yml", "x: 1\n"), read(tmp_path, "b.yml", "x: true\n")
    assert "x is 1" in refuse(lambda: merge_documents([first, second]))


def test_overrides_win_and_dotted_keys_reach_into_blocks(tmp_path: Path) -> None:
    document = read(tmp_path, "a.yml", "seed: 1\noptimizer: {type: Adam, params: {lr: 0.1, eps: 1e-8}}\n")
    changed = set_overrides(document, {"seed": 2, "optimizer.params.lr": 0.5, "train-iters": 9})
    assert changed.values["seed"] == 2
    assert changed.values["train_iters"] == 9
    assert changed.values["optimizer"] == {"type": "Adam", "params": {"lr": 0.5, "eps": 1e-8}}
    assert document.values["optimizer"]["params"]["lr"] == 0.1
    assert str(changed.places["optimizer.params.lr"]) == "override optimizer.params.lr"
    assert changed.places["optimizer.params.eps"].line == 2


def test_a_whole_block_replaces_the_block_and_its_places(tmp_path: Path) -> None:
    document = read(tmp_path, "a.yml", "zero_optimization: {stage: 1, overlap_comm: true}\n")
    changed = set_overrides(document, {"zero_optimization": {"stage": 2}})
    assert changed.values == {"zero_optimization": {"stage": 2}}
    assert "zero_optimization.overlap_comm" not in changed.places


def test_an_override_into_a_plain_value_is_refused(tmp_path: Path) -> None:
    document = read(tmp_path, "a.yml", "seed: 1\n")
    assert "seed is not a block of keys" in refuse(lambda: set_overrides(document, {"seed.x": 2}))


def test_overrides_of_the_command_line_are_yaml() -> None:
    assert parse_override("optimizer.params.lr=6e-4") == ("optimizer.params.lr", 6e-4)
    assert parse_override("no_weight_tying=True") == ("no_weight_tying", True)
    assert parse_override("betas=[0.9, .95]") == ("betas", [0.9, 0.95])
    assert parse_override("save=a=b") == ("save", "a=b")
    assert "is not KEY=VALUE" in refuse(lambda: parse_override("seed"))
    assert "not valid YAML" in refuse(lambda: parse_override("x=[1"))
