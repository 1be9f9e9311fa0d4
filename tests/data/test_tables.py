import json
import sys

import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from neox_train.data import limits, tables
from neox_train.data.documents import Document, Tally
from neox_train.data.sources import list_sources
from neox_train.errors import DataError

from .test_sources import files, read

TEXTS = ["one", "", "naïve 🙂\u2028end", "x" * 5000]


def make_table(texts, kind=None):
    return pa.table({"id": list(range(len(texts))), "text": pa.array(texts, kind or pa.string())})


def write_stream(path, table):
    with pa.OSFile(str(path), "wb") as sink, ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def save_dataset(folder, tables):
    """A folder as ``datasets.Dataset.save_to_disk`` lays it out."""
    folder.mkdir(parents=True)
    names = [f"data-{index:05d}-of-{len(tables):05d}.arrow" for index in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        write_stream(folder / name, table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


WRITERS = {
    "parquet": lambda path, table: parquet.write_table(table, path, row_group_size=2),
    "arrow": write_stream,
    "feather": lambda path, table: feather.write_feather(table, str(path), compression="uncompressed"),
}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@pytest.mark.parametrize("suffix", WRITERS)
def test_rows_are_documents(tmp_path, suffix, kind):
    path = tmp_path / f"corpus.{suffix}"
    WRITERS[suffix](path, make_table(TEXTS, kind))
    documents, tally = read(files(path))
    kept = [(text, row) for row, text in enumerate(TEXTS, start=1) if text]
    assert documents == [Document(text, len(text.encode()), f"{path} row {row}") for text, row in kept]
    assert tally.empty_documents == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_a_row_that_is_too_long_is_refused_and_others_are_read_few_at_a_time(tmp_path, monkeypatch, kind):
    path = tmp_path / "corpus.arrow"
    write_stream(path, make_table([*TEXTS[:3], None, *TEXTS[3:]], kind))
    monkeypatch.setattr(limits, "MAX_ROW_BYTES", 4_999)
    documents, tally = read(files(path, on_error="skip"))
    assert "corpus.arrow row 5: `text` holds 5000 bytes, a row's text has up to 4999" in tally.samples[1]
    assert len(documents) == len([text for text in TEXTS if text and len(text) < 5_000]) and tally.skipped == 2
    monkeypatch.undo()
    monkeypatch.setattr(tables, "_BYTES_AT_ONCE", 6_000)
    parquet.write_table(make_table(["y" * 5_000] * 7), tmp_path / "many.parquet", use_dictionary=False)
    batches = tables._Parquet(*list_sources(files(tmp_path / "many.parquet"))).batches(["text"])
    assert [len(column) for (column,) in batches] == [1] * 7


def test_a_saved_dataset_is_read_in_its_own_order(tmp_path):
    save_dataset(tmp_path / "saved", [make_table(["a", "b", "c"]), make_table(["d"])])
    write_stream(tmp_path / "saved" / "cache-123.arrow", make_table(["not a row of it"]))
    for pattern in (tmp_path / "saved", tmp_path / "sav*"):
        assert [document.text for document in read(files(pattern))[0]] == ["a", "b", "c", "d"]


def test_a_saved_dataset_of_several_splits_or_half_of_one_is_refused(tmp_path):
    for split in ("test", "train"):
        save_dataset(tmp_path / "saved" / split, [make_table(["a"])])
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match=r"several splits \(test, train\)"):
        read(files(tmp_path / "saved"))
    assert [document.text for document in read(files(tmp_path / "saved" / "train"))[0]] == ["a"]
    (tmp_path / "saved" / "train" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(DataError, match="is missing"):
        read(files(tmp_path / "saved" / "train"))
    (tmp_path / "saved" / "test" / "state.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        read(files(tmp_path / "saved" / "test"))


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_is_wrong_with_a_table_is_one_sentence(tmp_path, suffix):
    path = tmp_path / f"corpus.{suffix}"
    WRITERS[suffix](path, make_table(["a", None, "c"]))
    with pytest.raises(DataError, match=rf"corpus\.{suffix} row 2: `text` holds null"):
        read(files(path))
    documents, tally = read(files(path, on_error="skip"))
    assert [document.text for document in documents] == ["a", "c"] and tally.skipped == 1
    with pytest.raises(DataError, match="no column `body`, it has `id`, `text`"):
        read(files(path, text_key="body", on_error="skip"))
    with pytest.raises(DataError, match="`id` holds int64, strings are wanted"):
        read(files(path, text_key="id"))


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("keep", [0, 5, 0.5])
def test_a_damaged_table_is_named(tmp_path, suffix, keep):
    path = tmp_path / f"corpus.{suffix}"
    WRITERS[suffix](path, make_table([f"document {index} " * 20 for index in range(40)]))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep) if keep < 1 else keep])
    with pytest.raises(DataError, match=rf"corpus\.{suffix} is no whole") as caught:
        read(files(path))
    assert "\n" not in str(caught.value)


def test_mending_text_is_wanted_by_name(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("schÃ¶n â€” ﬁne")
    assert read(files(tmp_path / "a.txt"))[0][0].text == "schÃ¶n â€” ﬁne"
    mended = read(files(tmp_path / "a.txt", ftfy=True))[0][0]
    assert mended.text == "schön — fine" and mended.num_bytes == len(mended.text.encode())
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(DataError, match=r"pip install -e '\.\[ftfy\]'"):
        read(files(tmp_path / "a.txt", ftfy=True))


def test_a_tally_is_whole_after_a_damaged_table(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "b.txt").write_text("text")
    documents, tally = read(files(tmp_path / "a.parquet", tmp_path / "b.txt", on_error="skip"))
    assert isinstance(tally, Tally) and tally.skipped == 1
    assert [document.text for document in documents] == ["text"]


@pytest.mark.parametrize("suffix", WRITERS)
def test_each_of_several_columns_gives_a_document(tmp_path, suffix):
    path = tmp_path / f"corpus.{suffix}"
    table = pa.table({"body": ["a", None, "c"], "id": [1, 2, 3], "title": ["A", "B", "C"]})
    WRITERS[suffix](path, table)
    documents, tally = read(files(path, text_key=["title", "body"], on_error="skip"))
    assert [(document.text, document.place) for document in documents] == [
        (text, f"{path} row {row}") for text, row in (("A", 1), ("a", 1), ("C", 3), ("c", 3))
    ]
    assert tally.skipped == 1 and "row 2: `body` holds null" in tally.samples[0]
