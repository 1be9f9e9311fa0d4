"""Training of a run: one multi-process job, submitted and followed.

The checkpoints, logs and metrics are no outputs here: Snakemake would delete them before it runs the rule again.
"""


rule train:
    input:
        dataset=tokenized_dataset,
        blended=blended_datasets,
        estimated=RESULTS / "runs/{run}/estimated.json",
        mend=mend("runs/{run}/trained.json"),
    output:
        RESULTS / "runs/{run}/trained.json",
    log:
        RESULTS / "runs/{run}/logs/train.log",
    threads: training_threads
    resources:
        # A profile that has one machine allows one at a time.
        training=1,
    message:
        "training {wildcards.run}"
    shell:
        'stage submit {wildcards.run} --cluster "$CLUSTER" 2>&1 | tee -i -a {log:q}'
