"""What the rules share: the pipeline, the cluster's facts, and how a stage is called."""

import json
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path

from neox_train.cluster.failures import known_ids, list_failures
from neox_train.cluster.markers import find_false_markers, list_losses
from neox_train.cluster.plan import plan_run, render_plan
from neox_train.cluster.stage_jobs import (
    check_run_times,
    offer_account,
    stage_resources,
    stage_shell,
)
from neox_train.config.cluster import parse_cluster
from neox_train.config.layout import (
    PLAN,
    DatasetFolder,
    RunFolder,
    cluster_file,
    shard_name,
)
from neox_train.config.pipeline import load_pipeline
from neox_train.config.run import resolve_run
from neox_train.data.identity import list_data_paths
from neox_train.data.shard_plan import count_shards
from neox_train.data.sources import list_sources
from neox_train.errors import ConfigError, DataError, UserError
from neox_train.files import check_folder, write_json


def tell(text):
    """A line for the person, beside Snakemake's own."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def one_sentence():
    """What a person can mend is one line and its exit code; a WorkflowError would add places in these files."""
    try:
        yield
    except UserError as error:
        tell(f"error: {error}")
        sys.exit(error.exit_code)


def profile_run_times():
    """What the profile says of run times, by the place where it says it."""
    settings = workflow.resource_settings
    by_rule = getattr(settings, "_parsed_overwrite_resources", {})
    places = {"default-resources": settings.default_resources}
    places |= {f"set-resources of {rule}": found for rule, found in by_rule.items()}
    return {
        place: resources["runtime"].raw
        for place, resources in places.items()
        if resources and "runtime" in resources
    }


def read_files():
    """Pipeline, cluster and every run's configuration, checked before anything runs."""
    check_run_times(profile_run_times())
    if "executor" not in config:
        raise ConfigError(
            "no cluster facts: start with --profile cluster_profiles/local (or another profile), whose cluster.yaml has them"
        )
    pipeline = load_pipeline(PIPELINE_FILE)
    cluster = parse_cluster(
        config,
        files=workflow.configfiles,
        command_line=workflow.config_settings.config_args or [],
    )
    check_folder(cluster.results_path)
    configs = {
        run: resolve_run(pipeline, run, cluster, cluster.results_path)
        for run in pipeline.runs
    }
    return pipeline, cluster, configs


PIPELINE_FILE = config.get("pipeline", "configs/pipelines/default.yaml")
with one_sentence():
    PIPELINE, CLUSTER, CONFIGS = read_files()
RESULTS = CLUSTER.results_path
CLUSTER_FILE = cluster_file(RESULTS, CLUSTER.name)
DATASETS = {name: DatasetFolder.of(RESULTS, name) for name in PIPELINE.datasets}
RUNS = {name: RunFolder.of(RESULTS, name) for name in PIPELINE.runs}
REPORT = RESULTS / "report" / "index.html"
PARTS = {
    name: [PLAN, *map(shard_name, range(spec.shards))]
    for name, spec in PIPELINE.datasets.items()
    if spec.shards > 1
}
STAGE_FOLDERS = [
    *(
        DATASETS[name].part(part).path
        for name, parts in PARTS.items()
        for part in parts
    ),
    *(folder.path for folder in [*DATASETS.values(), *RUNS.values()]),
    REPORT.parent,
]
FALSE_MARKERS = {}

offer_account(CLUSTER)
setup, python = stage_shell(CLUSTER, on_compute_node=not workflow.is_main_process)

# `stage` calls a stage with the interpreter that runs Snakemake, whether or not its environment is activated; in a job
# of its own, with the cluster file's. The rules do not name the files as parameters: the same pipeline under another
# file name is the same work.
shell.prefix(
    (
        f"{setup}set -euo pipefail; CLUSTER={shlex.quote(str(CLUSTER_FILE))}; "
        f'stage() {{ {python} -m neox_train.cli "$@"'
        f" --pipeline {shlex.quote(str(PIPELINE_FILE))} --results {shlex.quote(str(RESULTS))}; }}; "
    )
    .replace("{", "{{")
    .replace("}", "}}")
)


wildcard_constraints:
    dataset="|".join(map(re.escape, PIPELINE.datasets)),
    run="|".join(map(re.escape, PIPELINE.runs)),
    # Empty for the dataset itself.
    part=rf"(?:shards/(?:{PLAN}|\d{{5}})/)?",


def corpus_files(wildcards):
    """Files whose change makes the dataset anew; the stage itself says which are missing."""
    spec = PIPELINE.datasets[wildcards.dataset]
    return source_files(spec) + [
        file for file in [spec.tokenizer.file] if file and Path(file).is_file()
    ]


def source_files(spec):
    # The standard library is the interpreter's own: its files are no input of the workflow.
    if spec.source.kind != "files":
        return []
    try:
        return [str(file.path) for file in list_sources(spec.source)]
    except DataError:
        return []


def tokenize_inputs(wildcards):
    """The files, which the plan divides; a shard follows its plan, and the dataset its shards."""
    folder = DATASETS[wildcards.dataset]
    if wildcards.part.strip("/") not in ("", f"shards/{PLAN}"):
        return [str(folder.part(PLAN).tokenized)]
    files = corpus_files(wildcards)
    spec = PIPELINE.datasets[wildcards.dataset]
    shards = count_shards(spec, len(source_files(spec)))
    if wildcards.part or shards == 1:
        return files
    return files + [
        str(folder.part(shard_name(shard)).tokenized) for shard in range(shards)
    ]


def dataset_spec(wildcards):
    """The dataset's entry: a change of any value makes it anew."""
    return PIPELINE.datasets[wildcards.dataset].content()


def tokenized_dataset(wildcards):
    return str(DATASETS[PIPELINE.runs[wildcards.run].dataset].tokenized)


def blended_datasets(wildcards):
    """Datasets of this pipeline that the run's blends name beside its own: they are made first."""
    own = {folder.path.resolve(): folder for folder in DATASETS.values()}
    named = [path.resolve() for path in list_data_paths(CONFIGS[wildcards.run])]
    first = PIPELINE.runs[wildcards.run].dataset
    return [
        str(own[path].tokenized)
        for path in named
        if path in own and own[path].name != first
    ]


def mend(marker):
    """An input without files: has the marker made again when what it vouches for is gone.

    Snakemake removes the marker itself, when its job starts: a dry run plans the same jobs and changes nothing.
    """

    def force(wildcards):
        file = str(RESULTS / marker).format(**dict(wildcards.items()))
        if file in FALSE_MARKERS:
            workflow.dag.forcefiles.add(file)
        return []

    return force


def run_config_files(wildcards):
    return PIPELINE.runs[wildcards.run].config


def run_spec(wildcards):
    """What the pipeline file says of the run beside its files."""
    return PIPELINE.runs[wildcards.run].model_dump(mode="json", exclude={"config"})


def memory_facts(wildcards):
    """Facts of the cluster that the estimate's verdict rests on."""
    names = {"device", "processes_per_node", "gpu", "memory_gib_per_process", "gate"}
    return CLUSTER.model_dump(mode="json", include=names)


def training_threads(wildcards):
    """Cores a training keeps busy here: all its processes', or the follower's one when Slurm has them."""
    return (
        1
        if CLUSTER.executor == "slurm"
        else CLUSTER.processes_per_node * CLUSTER.cpus_per_process
    )


def show_plan():
    runs = PIPELINE.runs
    plan = [
        plan_run(
            CONFIGS[name],
            CLUSTER,
            runs[name].nodes,
            RUNS[name],
            is_marker_true=str(RUNS[name].trained) not in FALSE_MARKERS,
        )
        for name in runs
    ]
    for line in render_plan(plan, CLUSTER):
        tell(line)
    tell("")


def show_missing_sources():
    """Said beside the plan: a dry run reads no corpus, and would promise what its first stage refuses."""
    for name, spec in PIPELINE.datasets.items():
        try:
            list_sources(spec.source)
        except DataError as error:
            tell(f"dataset {name}: {error}")


def show_failures():
    for line in list_failures(STAGE_FOLDERS, KNOWN_FAILURES):
        tell(line)


if workflow.is_main_process:
    with one_sentence():
        KNOWN_FAILURES = known_ids(STAGE_FOLDERS)
        found = find_false_markers(DATASETS.values(), RUNS.values(), PIPELINE.datasets)
        for marker, problem in found.items():
            FALSE_MARKERS[str(marker)] = problem
            tell(
                f"{marker} does not hold: {problem}; it is made again with what depends on it"
            )
        for sentence in list_losses(RUNS.values()):
            tell(sentence)
        # Here and not in onstart, which a dry run leaves out.
        show_plan()
        show_missing_sources()
