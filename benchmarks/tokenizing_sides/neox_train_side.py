"""This project's tokenize stage over a folder of JSON lines: CORPUS TOKENIZER TARGET."""

import json
import shutil
import sys
import time
from pathlib import Path

import awkward  # noqa: F401
import gigatoken  # noqa: F401
import h5py  # noqa: F401

from neox_train.config.layout import DatasetFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.data.corpus import make_tally, read_documents
from neox_train.data.sources import list_sources
from neox_train.data.tokenize import tokenize_dataset

corpus, tokenizer, target = sys.argv[1:]
shutil.rmtree(target, ignore_errors=True)
spec = DatasetSpec.model_validate(
    {
        "source": {"kind": "files", "files": [corpus]},
        "splits": {"train": 1.0, "validation": 0.0, "test": 0.0},
        "tokenizer": {"file": tokenizer},
    }
)
began, busy = time.perf_counter(), time.process_time()
tokenize_dataset(spec, DatasetFolder(Path(target)), report=lambda line: print(line, file=sys.stderr))
seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - busy
began = time.perf_counter()
for _ in read_documents(spec.source, list_sources(spec.source), make_tally(spec.source)):
    pass
print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "reading_alone": time.perf_counter() - began}))
