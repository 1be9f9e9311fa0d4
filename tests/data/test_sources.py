import bz2
import glob
import gzip
import json
import lzma
import os
import re
import tarfile
from pathlib import Path

import pytest

from neox_train.config.pipeline import SourceSpec
from neox_train.data.corpus import make_tally, read_documents
from neox_train.data.documents import Document, Tally
from neox_train.data.fingerprinting import fingerprint_alongside
from neox_train.data.patterns import expand_pattern
from neox_train.data.sources import fingerprint_sources, list_sources, tell_hard_links
from neox_train.errors import DataError

LINES = "".join(json.dumps({"text": f"line {index}"}) + "\n" for index in range(5)).encode()


def read(source: SourceSpec) -> tuple[list[Document], Tally]:
    tally = make_tally(source)
    return list(read_documents(source, list_sources(source), tally)), tally


def files(*patterns: object, **more: object) -> SourceSpec:
    return SourceSpec.model_validate({"kind": "files", "files": [str(pattern) for pattern in patterns], **more})


def compress_zst(data: bytes) -> bytes:
    return pytest.importorskip("zstandard", reason="pip install zstandard").compress(data)


COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": compress_zst}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_json_lines_are_read(tmp_path, suffix):
    # Two members in one file, as `cat a.gz b.gz` makes them.
    compress = COMPRESSORS[suffix]
    (tmp_path / f"corpus.jsonl{suffix}").write_bytes(compress(LINES) + compress(LINES))
    documents, _ = read(files(tmp_path / "*"))
    assert [document.text for document in documents] == [f"line {index}" for index in range(5)] * 2


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("damage", ["cut", "wrong"])
def test_a_damaged_archive_is_one_sentence(tmp_path, suffix, damage):
    data = COMPRESSORS[suffix](LINES * 2000)
    (tmp_path / f"corpus.jsonl{suffix}").write_bytes(data[: len(data) // 2] if damage == "cut" else b"no archive" * 9)
    with pytest.raises(DataError, match=rf"corpus\.jsonl{suffix}: the archive is"):
        read(files(tmp_path / "*"))


def test_text_files_keep_every_byte(tmp_path):
    text = "first\r\nsecond\u2028 third\x0c\n\n"
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "a.md").write_bytes(b"a")
    documents, _ = read(files(tmp_path))
    assert [(document.text, document.num_bytes) for document in documents] == [("a", 1), (text, len(text.encode()))]


def test_bad_utf8_names_file_and_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("näh\nok\nb\n".encode() + b"\xe4\n")
    with pytest.raises(DataError, match=r"a\.txt line 4: byte 11 of the file is not UTF-8 \(0xe4\)"):
        read(files(tmp_path / "a.txt"))
    (tmp_path / "good.txt").write_text("good")
    documents, tally = read(files(tmp_path / "*.txt", on_error="skip"))
    assert [document.text for document in documents] == ["good"] and tally.skipped == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"text": "a\xff"}', "byte 12 of the line is not UTF-8"),
        (b'{"text": "a"', "not valid JSON"),
        (b'{"text": null}', "`text` holds null; a string is wanted"),
        (b'{"text": "\\udc00"}', r"lone surrogate \\udc00"),
        (b"3", "the line holds a number"),
        (b"{}", "no key `text`, the object has no keys"),
        (b"[" * 100_000, "one JSON object a line is wanted"),
    ],
)
def test_a_bad_line_names_file_and_line(tmp_path, line, words):
    (tmp_path / "corpus.jsonl").write_bytes(b'{"text": "good"}\r\n\n' + line + b"\n")
    with pytest.raises(DataError, match=rf"corpus\.jsonl line 3: .*{words}") as caught:
        read(files(tmp_path / "corpus.jsonl"))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_archive_counts_once(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(b"no archive")
    (tmp_path / "b.jsonl").write_bytes(LINES)
    documents, tally = read(files(tmp_path / "*", on_error="skip"))
    assert len(documents) == 5 and tally.skipped == 1


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_an_empty_file_is_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=rf"{name} is empty"):
        read(files(tmp_path / name))


def test_paths_that_match_nothing_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    for pattern, words in [("nothing.txt", "is not there"), ("*.md", "matches no file"), ("empty", "without files")]:
        with pytest.raises(DataError, match=words):
            list_sources(files(tmp_path / pattern))
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(DataError, match="a token file"):
        list_sources(files(tmp_path / "a.bin"))


def test_a_file_named_twice_is_read_once(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    documents, _ = read(files(tmp_path / "b.txt", tmp_path / "*.txt"))
    assert [document.text for document in documents] == ["b", "a", "c"]


def test_the_format_can_be_set(tmp_path):
    (tmp_path / "corpus.data").write_bytes(LINES)
    assert len(read(files(tmp_path / "corpus.data", format="jsonl"))[0]) == 5
    assert [document.text for document in read(files(tmp_path / "corpus.data"))[0]] == [LINES.decode()]


def test_the_cap_ends_the_corpus_before_the_document_that_passes_it(tmp_path):
    for name, size in [("a", 30), ("b", 30), ("c", 50), ("d", 1)]:
        (tmp_path / name).write_text("x" * size)
    assert [document.num_bytes for document in read(files(tmp_path, max_bytes=109))[0]] == [30, 30]
    with pytest.raises(DataError, match=r"`source.max_bytes` 29"):
        read(files(tmp_path, max_bytes=29))


def test_the_standard_library_is_a_corpus():
    source = SourceSpec(kind="python_stdlib", max_bytes=600_000)
    names = [file.name for file in list_sources(source)]
    assert names == sorted(names) and len(names) > 400
    assert {"ast.py", "json/decoder.py"} < set(names)
    assert not any(
        part in {"site-packages", "test", "tests", "idle_test"} for name in names for part in name.split("/")
    )
    documents, tally = read(source)
    assert 300_000 < sum(document.num_bytes for document in documents) <= 600_000 and tally.skipped == 0
    assert len({document.text for document in documents}) == len(documents)


def test_copies_and_other_encodings_in_the_standard_library_are_left_out(tmp_path, monkeypatch):
    from neox_train.data import python_stdlib

    (tmp_path / "test").mkdir()
    for name, data in {
        "a.py": b"a",
        "b.py": b"a",
        "c.py": b"\xe4",
        "d.py": b"",
        "e.py": b"e",
        "test/f.py": b"f",
    }.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(python_stdlib.sysconfig, "get_path", lambda name: str(tmp_path))
    documents, tally = read(SourceSpec(kind="python_stdlib"))
    assert [document.text for document in documents] == ["a", "e"]
    assert (tally.duplicate_documents, tally.skipped, tally.empty_documents) == (1, 1, 1)


def test_a_link_to_nothing_is_named_and_links_repeat_no_file(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("one")
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    (tmp_path / "z.txt").symlink_to(tmp_path / "a" / "one.txt")
    for place in (tmp_path, tmp_path / "**", tmp_path / "**" / "*.txt"):
        assert [document.text for document in read(files(place))[0]] == ["one"]
    (tmp_path / "a" / "gone.txt").symlink_to(tmp_path / "purged.txt")
    for place in (tmp_path, tmp_path / "**", tmp_path / "a" / "*"):
        with pytest.raises(DataError, match=r"a/gone\.txt is a link to a file that is not there"):
            list_sources(files(place))


def test_a_folder_is_read_with_the_folders_that_links_in_it_lead_to(tmp_path):
    for name in ("corpus/b", "elsewhere/deep", "elsewhere/.cache", "corpus/.hidden"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "corpus/c",
        "corpus/b/1",
        "elsewhere/2",
        "elsewhere/deep/3",
        "elsewhere/.cache/no",
        "corpus/.hidden/no",
    ):
        (tmp_path / f"{name}.txt").write_text(name[-1])
    (tmp_path / "corpus" / "a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "corpus" / "z").symlink_to(tmp_path / "corpus")
    assert [document.text for document in read(files(tmp_path / "corpus"))[0]] == ["2", "3", "1", "c"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "a", "n": NaN}',
        b'{"text": "first", "text": "a"}',
        b'{"text": "a", "n": 123456789012345678901234567890}',
        b'{"text": "a", "deep": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'  {"text" : "\\u0061"} \r',
    ],
)
def test_what_the_standard_library_reads_is_read(tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(line)
    assert [document.text for document in read(files(tmp_path / "a.jsonl"))[0]] == [json.loads(line)["text"]] == ["a"]


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    (source,) = list_sources(files(tmp_path / "a.txt"))
    with fingerprint_alongside([source]) as fingerprints:
        (record,) = fingerprints()
        assert record == fingerprint_sources([source])[0]
    with fingerprint_alongside([source]) as fingerprints:
        (tmp_path / "a.txt").write_text("later")
        with pytest.raises(DataError, match=r"a\.txt changed while it was read; repeat the same command"):
            fingerprints()
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DataError, match=r"a\.txt cannot be read"), fingerprint_alongside([source]):
        pass


def test_each_of_several_keys_gives_a_document_and_a_line_counts_whole_or_not(tmp_path):
    lines = [{"a": "one", "b": "two", "c": 3}, {"a": "lost"}, {"b": "", "a": "three"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    documents, tally = read(files(tmp_path / "a.jsonl", text_key=["b", "a"], on_error="skip"))
    assert [document.text for document in documents] == ["two", "one", "three"]
    assert tally.skipped == 1 and tally.empty_documents == 1 and "line 2: there is no key `b`" in tally.samples[0]


def make_tree(root, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "*.txt",
        "**",
        "**/",
        "**/*.txt",
        "a/**/c/*",
        "*/*.txt",
        "a?/x.txt",
        "[ab]/x.txt",
        "[!a]*/*",
        ".hidden/*",
        ".h*/*",
        "**/x.txt",
        "a/**",
        "a/",
        "a/../b/*",
        "./a/*",
        "a/x.txt/",
        "**/b/**/c/*",
        "no/**/such",
        "x.txt/*",
    ],
)
def test_patterns_name_what_glob_names(tmp_path, monkeypatch, pattern):
    names = ("x.txt", "a/x.txt", "a/y.md", "a/b/c/x.txt", "a/.no/x.txt", "ab/x.txt", "b/x.txt", ".hidden/x.txt")
    make_tree(tmp_path, *names)
    (tmp_path / "b" / "turn").symlink_to("turn")
    monkeypatch.chdir(tmp_path)
    for place in (pattern, f"{tmp_path}/{pattern}"):
        assert expand_pattern(place) == sorted({Path(match) for match in glob.glob(place, recursive=True)})


def test_a_name_with_brackets_wins_over_the_pattern(tmp_path):
    make_tree(tmp_path, "br[1]/a[x].txt", "br[1]/ax.txt", "br1/a.txt", "z[9]")
    read_names = lambda pattern: [document.text for document in read(files(f"{tmp_path}/{pattern}"))[0]]  # noqa: E731
    assert read_names("br[1]/") == read_names("br[1]/*") == ["br[1]/a[x].txt", "br[1]/ax.txt"]
    assert read_names("br[1]/a[x].txt") == read_names("b*/a[x].txt") == ["br[1]/a[x].txt"]
    assert read_names("br[12]/*") == ["br1/a.txt"]
    assert read_names("br[[]1]/*") == ["br[1]/a[x].txt", "br[1]/ax.txt"]
    with pytest.raises(DataError, match=r"br\[2\] matches no file .* or write \[\[\] where the name itself has a \["):
        read_names("br[2]")


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.TGZ", "a.jsonl.tar.zst", "a.zip", "a.7z"])
@pytest.mark.parametrize("form", ["auto", "text", "jsonl"])
def test_an_archive_of_files_is_refused_by_its_name(tmp_path, name, form):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=rf"{name} is an archive of files, .*unpack it and name its folder"):
        list_sources(files(tmp_path, format=form))


def test_an_archive_under_another_name_is_refused(tmp_path):
    make_tree(tmp_path, "member.txt")
    with tarfile.open(tmp_path / "corpus.gz", "w:gz") as archive:
        archive.add(tmp_path / "member.txt", "member.txt")
    with pytest.raises(DataError, match=r"corpus\.gz is an archive of files.*or set `source\.on_error: skip`"):
        read(files(tmp_path / "corpus.gz"))
    documents, tally = read(files(tmp_path, on_error="skip"))
    assert [document.text for document in documents] == ["member.txt"] and tally.skipped == 1
    (tmp_path / "a.parquet.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.parquet\.gz is a table inside another compression"):
        list_sources(files(tmp_path / "a.parquet.gz"))


def test_hard_links_are_told_and_links_are_not(tmp_path):
    make_tree(tmp_path, "a.txt", "b.txt", "elsewhere/c.txt")
    (tmp_path / "link.txt").symlink_to("a.txt")
    os.link(tmp_path / "elsewhere" / "c.txt", tmp_path / "c.txt")
    assert tell_hard_links(list_sources(files(tmp_path / "*.txt"))) == []
    os.link(tmp_path / "a.txt", tmp_path / "y.txt")
    os.link(tmp_path / "a.txt", tmp_path / "z.txt")
    (told,) = tell_hard_links(list_sources(files(tmp_path / "*.txt")))
    assert re.search(r"a\.txt and .*y\.txt are one file by a hard link.*\(2 files are read again so\)", told)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", b"no json"), ("a.jsonl.gz", b"no archive"), ("a.parquet", b"no table"), ("a.txt", b"\xff")],
)
def test_the_remedies_of_bad_input_tell_how_to_skip_it(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r", or set `source\.on_error: skip`$") as caught:
        read(files(tmp_path / name))
    assert str(caught.value).count("on_error") == 1
