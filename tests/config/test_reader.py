from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.reader import read_yaml, show_value
from tests.config.files import refuse


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.yml"


def test_json_style_with_comments_and_trailing_commas(file: Path) -> None:
    file.write_text(
        '# a comment\n{\n  "num-layers": 2, # another\n  "norm": "layernorm",\n  "betas": [0.9, .95,],\n}\n'
    )
    document = read_yaml(file, fold_hyphens=True)
    assert document.values == {"num_layers": 2, "norm": "layernorm", "betas": [0.9, 0.95]}
    assert document.places["num_layers"].line == 3
    assert document.places["betas[1]"].text == ".95"
    assert str(document.places["norm"]) == f"{file}, line 4"


def test_hyphens_fold_at_the_top_level_and_where_the_names_are_known(file: Path) -> None:
    file.write_text(
        "train-iters: 3\nzero-optimization: {allgather-partitions: true, b: {c-d: 1}}\ndeepspeed-extra-args: {a-b: 1}\n"
    )
    document = read_yaml(file, fold_hyphens=True)
    assert document.values == {
        "train_iters": 3,
        "zero_optimization": {"allgather_partitions": True, "b": {"c_d": 1}},
        "deepspeed_extra_args": {"a-b": 1},
    }
    assert document.places["zero_optimization.allgather_partitions"].line == 2
    assert read_yaml(file).values["train-iters"] == 3


def test_quotes_keep_text(file: Path) -> None:
    file.write_text("a: '1e-8'\nb: \"2\"\nc: |\n  3\n")
    assert read_yaml(file).values == {"a": "1e-8", "b": "2", "c": "3\n"}


def test_aliases_are_read(file: Path) -> None:
    file.write_text("a: &x {b: 1}\nc: *x\n")
    assert read_yaml(file).values == {"a": {"b": 1}, "c": {"b": 1}}


def test_the_same_key_twice_with_one_value_is_fine(file: Path) -> None:
    file.write_text("a: 1\na: 1\n")
    assert read_yaml(file).values == {"a": 1}


@pytest.mark.parametrize(
    ("text", "key", "first", "second"),
    [
        ("seed: 1\nb: 2\nseed: 3\n", "seed", "1 on line 1", "3 on line 3"),
        ("train-iters: 1\ntrain_iters: 2\n", "train_iters", "1 on line 1", "2 on line 2"),
        ("fp16: {min-loss-scale: 1, min_loss_scale: 2}\n", "fp16.min_loss_scale", "1 on line 1", "2 on line 1"),
        ("o:\n  p:\n    lr: 0.1\n    lr: 1.0\n", "o.p.lr", "0.1 on line 3", "1.0 on line 4"),
        ("l:\n- a: 1\n  a: true\n", "l[0].a", "1 on line 2", "true on line 3"),
    ],
)
def test_the_same_key_twice_with_two_values_is_refused(
    file: Path, text: str, key: str, first: str, second: str
) -> None:
    file.write_text(text)
    sentence = refuse(lambda: read_yaml(file, fold_hyphens=True))
    assert sentence.startswith(f"{file}: {key} is set twice")
    assert first in sentence and second in sentence


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"- a\n- b\n", "holds a list"),
        (b"just text\n", "only the text 'just text'"),
        (b"a: 1\nb: \xff\n", "line 2: the file is not UTF-8"),
        (b"a: [1\n", "not valid YAML"),
        (b"a:\n\tb: 1\n", "line 2: not valid YAML (a tab indents the line); indent with spaces"),
        (b"a:\n  b: 1\n \t c: 2\n", "line 3: not valid YAML (a tab indents the line); indent with spaces"),
        (b"b: 1\na: &x {b: *x}\n", "line 2: a.b is an alias (*name) of a block around it; write the value out"),
        (b"a: &x [1, [*x]]\n", "a[1][0] is an alias"),
        (b"a: 1" + b"0" * 26 + b"\n", "line 1: a is 100000000000000000000000000, which takes more than 64 bits"),
        (b"a: [-9223372036854775809]\n", "a[0] is -9223372036854775809, which takes more than 64 bits"),
        (b"a: " + b"9" * 5000 + b"\n", "which takes more than 64 bits; write a smaller number"),
        (b"a: " + b"[" * 800 + b"]" * 800, "is nested too deeply"),
        (
            b"a: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 10)) for c in range(98, 106)),
            "is beyond 200,000 values; write aliases (*name) out",
        ),
        (b"a: !!python/object:os.system x\n", "line 1: a carries the YAML tag"),
        (b"a: &x 1\n<<: {b: 1}\n", "line 2: YAML merge keys"),
        (b"[1, 2]: 3\n", "line 1: a key is a list or a mapping"),
    ],
)
def test_bad_files_get_one_sentence(file: Path, content: bytes, expected: str) -> None:
    file.write_bytes(content)
    sentence = refuse(lambda: read_yaml(file))
    assert sentence.startswith(str(file))
    assert expected in sentence


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert "does not exist" in refuse(lambda: read_yaml(tmp_path / "absent.yml"))
    assert "is a folder" in refuse(lambda: read_yaml(tmp_path))


def test_the_largest_number_and_tabs_that_indent_nothing_are_read(file: Path) -> None:
    file.write_text("{\n\t'a': 9223372036854775807,\t# b\n\t'c': 'x\ty'}\n")
    assert read_yaml(file).values == {"a": 2**63 - 1, "c": "x\ty"}


def test_a_byte_order_mark_is_no_part_of_the_first_key(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfseed: 5\n")
    assert read_yaml(file).values == {"seed": 5}


def test_values_in_sentences_are_short() -> None:
    assert show_value(True) == "true"
    assert show_value(None) == "null"
    assert show_value("a") == "'a'"
    assert len(show_value(list(range(100)))) == 60


@pytest.mark.parametrize("text", ["1e-400", "-2.5e-9999", "0.001e-400"])
def test_a_number_that_64_bits_make_nothing_of_is_refused(file: Path, text: str) -> None:
    file.write_text(f"gradient_clipping: {text}\n")
    sentence = refuse(lambda: read_yaml(file))
    assert f"line 1: gradient_clipping is {text}, which a 64-bit number holds as 0; write 0" in sentence


@pytest.mark.parametrize("text", ["0", "0.0", "0e-400", "-0.0", "1e-307", ".0"])
def test_nothing_itself_is_a_number(file: Path, text: str) -> None:
    file.write_text(f"gradient_clipping: {text}\n")
    assert read_yaml(file).values["gradient_clipping"] == float(text)
