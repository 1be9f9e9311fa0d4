"""One self-contained page about every run of the pipeline."""


rule report:
    input:
        expand(
            RESULTS / "runs/{run}/{marker}.json",
            run=RUNS,
            marker=["estimated", "evaluation"],
        ),
    output:
        report(
            REPORT, caption="../workflow/report/report.rst", category="Training report"
        ),
    log:
        RESULTS / "report/report.log",
    message:
        "writing the report"
    shell:
        "stage report 2>&1 | tee -i {log:q}"
