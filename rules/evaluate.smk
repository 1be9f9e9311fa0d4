"""Held-out loss, perplexity and bits per byte of the exported model, and continuations to read."""


rule evaluate:
    input:
        RESULTS / "runs/{run}/converted.json",
    output:
        report(
            RESULTS / "runs/{run}/evaluation.json",
            caption="../workflow/report/evaluation.rst",
            category="Scores",
            labels={"run": "{run}"},
        ),
    log:
        RESULTS / "runs/{run}/logs/evaluate.log",
    resources:
        **stage_resources(CLUSTER, "evaluate"),
    params:
        evaluation=PIPELINE.evaluation.model_dump(mode="json"),
    message:
        "evaluating {wildcards.run}"
    shell:
        "stage evaluate {wildcards.run} 2>&1 | tee -i {log:q}"
