"""Training of a run: one multi-process job, submitted and followed.

The checkpoints, logs and metrics are no outputs here: Snakemake would delete them before it runs the rule again.
"""


rule train:
    input:
        manifest=dataset_manifest,
        config=run_config_files,
        # The gate is passed before; an estimate made again, for another profile too, trains nothing again.
        estimated=ancient(RESULTS / "runs/{run}/estimated.json"),
    output:
        RESULTS / "runs/{run}/trained.json",
    log:
        RESULTS / "runs/{run}/logs/train.log",
    threads: training_threads
    resources:
        # A profile that has one machine allows one at a time.
        training=1,
    params:
        run=run_spec,
    message:
        "training {wildcards.run}"
    shell:
        "stage submit {wildcards.run} --cluster $CLUSTER 2>&1 | tee -i -a {log}"
