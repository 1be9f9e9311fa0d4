"""Corpus to token store: one dataset of the pipeline file."""


rule tokenize:
    input:
        corpus_files,
        mend("datasets/{dataset}/tokenized.json"),
    output:
        # Not the manifest: a corpus that becomes unusable must not cost the tokens there are.
        RESULTS / "datasets/{dataset}/tokenized.json",
    log:
        RESULTS / "datasets/{dataset}/tokenize.log",
    resources:
        **stage_resources(CLUSTER, "tokenize"),
    params:
        spec=dataset_spec,
    message:
        "tokenizing {wildcards.dataset}"
    shell:
        "stage tokenize {wildcards.dataset} 2>&1 | tee -i {log:q}"
