"""The real Snakemake with a Slurm profile: from text to report, its controller killed on the way."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.working_copy import STEPS, Snakemake, WorkingCopy, training_records

from .lab import SlurmLab
from .profiles import PLUGIN, PROFILE, write_profile

pytestmark = [pytest.mark.slurm, pytest.mark.workflow, pytest.mark.timeout(600)]

# The stages beside the training run here: as jobs, they would wait for the plugin's slow looks at the queue.
OPTIONS = """
executor: local
cores: 2
configfile: cluster.yaml
nolock: true
rerun-incomplete: true
rerun-triggers: [mtime, params, input]
"""
PIPELINE = """
datasets:
  words:
    source: {kind: files, files: ["corpus/*.txt"], format: text}
    splits: {train: 0.8, validation: 0.1, test: 0.1}
    tokenizer: {train: bpe, vocab_size: 300}
runs:
  wide: {config: [model.yml], dataset: words, nodes: 2}
evaluation: {split: test, continuations: 1, continuation_tokens: 8}
"""


@pytest.fixture
def copy(slurm: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkingCopy:
    """A working copy with a profile for the test cluster: 2 nodes of 2 ranks."""
    monkeypatch.setenv("NEOX_TRAIN_POLL_SECONDS", "1")
    copy = WorkingCopy.make(tmp_path / "copy")
    (copy.folder / "pipeline.yaml").write_text(PIPELINE)
    write_profile(copy, OPTIONS)
    return copy


def kill(snakemake: Snakemake) -> None:
    """SIGKILL to Snakemake and to the follower it started, as at the end of a login session."""
    follower = snakemake.stage_process("submit")
    os.kill(snakemake.process.pid, signal.SIGKILL)
    follower.kill()
    snakemake.wait()


def test_two_nodes_of_two_ranks_end_to_end_though_the_controller_is_killed(slurm: SlurmLab, copy: WorkingCopy) -> None:
    run = copy.run("wide")
    snakemake = copy.start(profile=PROFILE)
    snakemake.wait_until(lambda: len(training_records(run)) >= 3)
    kill(snakemake)

    code, text = copy.snakemake(profile=PROFILE)
    assert code == 0, text
    assert "attached to job" in text
    assert "the report is results/report/index.html" in text
    assert [record["step"] for record in training_records(run)] == list(range(1, STEPS + 1))
    names = [entry["Name"] for entry in slurm.list_attempts() if entry.get("Name", "").startswith("wide-")]
    assert len(names) == 1
    provenance = run.provenance.read_text()
    assert '"code"' in provenance
    assert (run.hf / "config.json").is_file()


@pytest.mark.full
def test_every_stage_beside_the_training_is_a_job_of_the_plugin(
    slurm: SlurmLab, copy: WorkingCopy, default_place: None
) -> None:
    write_profile(copy, PLUGIN)
    before = len(slurm.list_attempts())
    code, text = copy.snakemake(profile=PROFILE)
    assert code == 0, text
    assert "the report is results/report/index.html" in text
    jobs = slurm.list_attempts()[before:]
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    # Tokenize, convert and evaluate, and the training; estimate, train and report ran here.
    assert len(jobs) == 4
    assert {job["Partition"] for job in jobs} == {"h100"}


def test_the_controller_is_a_job_that_queues_itself_again(slurm: SlurmLab, copy: WorkingCopy) -> None:
    command = [sys.executable, "-m", "neox_train.cli", "launch", "--profile", PROFILE]
    command += ["--config", "pipeline=pipeline.yaml", "results/datasets/words/tokenized.json"]

    def launch() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=copy.folder, capture_output=True, text=True, timeout=120, check=False)

    answer = launch()
    assert answer.returncode == 0, answer.stderr
    job_id = answer.stdout.split()[2].rstrip(";")
    again = launch()
    assert again.returncode == 5
    assert f"job {job_id} is this workflow's controller already" in again.stderr

    # Its time is up: back into the queue, and on from there.
    slurm.wait_for(lambda: slurm.state(job_id) == "RUNNING")
    slurm.run("scancel", "--batch", "--signal=USR2", job_id)
    slurm.wait_for(lambda: slurm.state(job_id) == "COMPLETED")
    assert copy.dataset().manifest.is_file()
    states = [entry["JobState"] for entry in slurm.list_attempts() if entry["JobId"] == job_id]
    assert states[-1] == "COMPLETED"
    assert len(states) == 2
