"""datatrove's tokenizer pipeline, two tasks on two processes: CORPUS TOKENIZER TARGET."""

import json
import sys
import time

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer

if __name__ == "__main__":
    corpus, tokenizer, target = sys.argv[1:]
    began = time.perf_counter()
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(corpus, glob_pattern="*.jsonl"),
            DocumentTokenizer(
                output_folder=target,
                tokenizer_name_or_path=tokenizer,
                eos_token="<|endoftext|>",
                shuffle_documents=False,
            ),
        ],
        tasks=2,
        workers=2,
        logging_dir=f"{target}-logs",
    ).run()
    print(json.dumps({"seconds": time.perf_counter() - began}))
