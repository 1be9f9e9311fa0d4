"""The trained model as a Hugging Face directory, its logits compared with the trainer's."""


rule convert:
    input:
        RESULTS / "runs/{run}/trained.json",
    output:
        RESULTS / "runs/{run}/converted.json",
    log:
        RESULTS / "runs/{run}/logs/convert.log",
    message:
        "converting {wildcards.run}"
    shell:
        "{NEOX_TRAIN} convert {wildcards.run} --pipeline {PIPELINE_FILE} --results {RESULTS}"
        " 2>&1 | tee -i {log}"
