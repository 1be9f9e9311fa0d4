"""One self-contained page about every run of the pipeline."""


rule report:
    input:
        expand(RESULTS / "runs/{run}/evaluation.json", run=PIPELINE.runs),
    output:
        REPORT,
    log:
        RESULTS / "report/report.log",
    message:
        "writing the report"
    shell:
        "{NEOX_TRAIN} report --pipeline {PIPELINE_FILE} --results {RESULTS}"
        " 2>&1 | tee -i {log}"
