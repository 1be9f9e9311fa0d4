"""Corpus to token store: one dataset of the pipeline file."""


rule tokenize:
    input:
        corpus_files,
    output:
        RESULTS / "datasets/{dataset}/manifest.json",
    log:
        RESULTS / "datasets/{dataset}/tokenize.log",
    resources:
        **stage_resources(CLUSTER, "tokenize"),
    params:
        spec=dataset_spec,
    message:
        "tokenizing {wildcards.dataset}"
    shell:
        "stage tokenize {wildcards.dataset} 2>&1 | tee -i {log}"
