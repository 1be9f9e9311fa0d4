"""Corpus to token store: one dataset of the pipeline file."""


rule tokenize:
    input:
        corpus_files,
    output:
        RESULTS / "datasets/{dataset}/manifest.json",
    log:
        RESULTS / "datasets/{dataset}/tokenize.log",
    params:
        spec=dataset_spec,
    message:
        "tokenizing {wildcards.dataset}"
    shell:
        "{NEOX_TRAIN} tokenize {wildcards.dataset} --pipeline {PIPELINE_FILE} --results {RESULTS}"
        " 2>&1 | tee -i {log}"
