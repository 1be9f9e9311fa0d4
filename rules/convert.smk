"""The trained model as a Hugging Face directory, its logits compared with the trainer's."""


rule convert:
    input:
        RESULTS / "runs/{run}/trained.json",
        mend("runs/{run}/converted.json"),
    output:
        RESULTS / "runs/{run}/converted.json",
    log:
        RESULTS / "runs/{run}/logs/convert.log",
    resources:
        **stage_resources(CLUSTER, "convert"),
    message:
        "converting {wildcards.run}"
    shell:
        "stage convert {wildcards.run} 2>&1 | tee -i {log:q}"
