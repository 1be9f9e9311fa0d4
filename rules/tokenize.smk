"""Corpus to token store: one dataset of the pipeline file, or a part of one whose files are divided among jobs."""


rule tokenize:
    input:
        tokenize_inputs,
        mend("datasets/{dataset}/{part}tokenized.json"),
    output:
        # Not the manifest: a corpus that becomes unusable must not cost the tokens there are.
        RESULTS / "datasets/{dataset}/{part}tokenized.json",
    log:
        RESULTS / "datasets/{dataset}/{part}tokenize.log",
    resources:
        **stage_resources(CLUSTER, "tokenize"),
    params:
        spec=dataset_spec,
    message:
        "tokenizing {wildcards.dataset} {wildcards.part}"
    shell:
        # No parameter: one more would have finished datasets made again.
        "part={wildcards.part:q}; stage tokenize {wildcards.dataset} "
        '${{part:+--part "$(basename "$part")"}} 2>&1 | tee -i {log:q}'
