"""Memory of a run before it is launched: the gate that a run which does not fit never passes."""


rule estimate:
    input:
        dataset=tokenized_dataset,
        config=run_config_files,
        mend=mend("runs/{run}/estimated.json"),
    output:
        RESULTS / "runs/{run}/estimated.json",
    log:
        RESULTS / "runs/{run}/logs/estimate.log",
    params:
        run=run_spec,
        cluster=memory_facts,
    message:
        "estimating the memory of {wildcards.run}"
    shell:
        'stage estimate {wildcards.run} --cluster "$CLUSTER" 2>&1 | tee -i {log:q}'
