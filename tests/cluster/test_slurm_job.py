"""Submission to a Slurm whose sbatch prints what real sites print, with a stand-in sbatch first on PATH."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neox_train.cluster import slurm_job
from neox_train.cluster.jobs import ENDED, PENDING, RUNNING, UNKNOWN
from neox_train.cluster.ledger import Attempt
from neox_train.cluster.rank_record import FINISHED, RankRecord
from neox_train.cluster.sbatch import UnclearSubmissionError, wait_for_sbatch
from neox_train.cluster.slurm_job import SlurmJob
from neox_train.cluster.slurm_state import SlurmSilentError
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError
from tests.cluster.stand_ins import write_command

CASES = Path(__file__).parent.parent / "cases"
CLUSTER = Cluster(
    name="lab", executor="slurm", processes_per_node=2, cpus_per_process=3, partition="cpu", memory_per_node="6G"
)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    write_command(folder, "srun", "exit 1", monkeypatch)
    for name in ("squeue", "sacct"):
        write_command(folder, name, "exit 1")
    monkeypatch.setattr(slurm_job, "_NAME_PAUSE_SECONDS", 0.0)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "serial")


def intent(job_id: str | None = None) -> Attempt:
    submitted = time.time() - 60
    return Attempt(1, "serial-1", "slurm", "login", 2, 4, "logs/attempt-0001", submitted, job_id=job_id)


def submit(run: RunFolder) -> SlurmJob:
    (run.path / intent().folder).mkdir(parents=True)
    return SlurmJob.submit(run, CLUSTER, intent())


@pytest.mark.parametrize(
    ("printed", "job_id", "cluster_name"),
    [
        ("a-banner", "4711", None),
        ("b-notice", "9182736", None),
        ("c-federated", "60123", "tern2"),
        ("d-parsable", "75168975", "tern2"),
        ("e-bare", "15786755", None),
    ],
)
def test_the_job_id_is_found_among_a_sites_notices(
    run: RunFolder, bin_folder: Path, printed: str, job_id: str, cluster_name: str | None
) -> None:
    write_command(bin_folder, "sbatch", f"[ $1 = --parsable ] && cat {CASES}/14-sbatch/{printed}.txt")
    job = submit(run)
    assert (job.job_id, job.cluster_name, job.processes) == (job_id, cluster_name, 4)


def test_an_output_without_a_job_id_is_quoted(run: RunFolder, bin_folder: Path) -> None:
    file = CASES / "14-sbatch" / "f-no-id.txt"
    write_command(bin_folder, "sbatch", f"cat {file}")
    with pytest.raises(UnclearSubmissionError) as caught:
        submit(run)
    assert file.read_text().strip() in str(caught.value)


@pytest.mark.parametrize(
    ("words", "unclear"),
    [
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", False),
        ("sbatch: error: Batch job submission failed: Requested time limit is invalid", False),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", True),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", True),
    ],
)
def test_a_refusal_is_told_from_a_submission_that_may_have_been_taken(
    run: RunFolder, bin_folder: Path, words: str, unclear: bool
) -> None:
    write_command(bin_folder, "sbatch", f"echo '{words}' >&2; exit 1")
    with pytest.raises(TrainingError) as caught:
        submit(run)
    assert words in str(caught.value)
    assert isinstance(caught.value, UnclearSubmissionError) == unclear


def test_a_job_whose_answer_was_lost_is_found_by_its_name(run: RunFolder, bin_folder: Path) -> None:
    with pytest.raises(SlurmSilentError):
        SlurmJob.attach(run, intent())
    write_command(bin_folder, "squeue", "exit 0")
    assert SlurmJob.attach(run, intent()) is None
    write_command(bin_folder, "squeue", 'for a in "$@"; do [ "$a" = serial-1 ] && echo 815; done; exit 0')
    job = SlurmJob.attach(run, intent())
    assert job is not None
    assert (job.job_id, job.processes) == ("815", 4)


def test_a_job_that_started_is_known_by_its_files_though_slurm_forgot_it(run: RunFolder, bin_folder: Path) -> None:
    folder = run.path / intent().folder
    folder.mkdir(parents=True)
    (folder / "submitted.pkl").touch()
    with pytest.raises(SlurmSilentError):
        SlurmJob.attach(run, intent())
    (folder / "4711_submitted.pkl").touch()
    for _ in range(2):
        job = SlurmJob.attach(run, intent())
        assert job is not None
        assert job.job_id == "4711"
        (folder / "4711_submitted.pkl").unlink(missing_ok=True)
        RankRecord.begin(folder, "4711", 3, 0)


def test_an_sbatch_that_outlives_its_submitter_is_waited_for(run: RunFolder, bin_folder: Path, tmp_path: Path) -> None:
    started, go, done = tmp_path / "started", tmp_path / "go", tmp_path / "done"
    waiting = f"while ! [ -e {go} ]; do sleep 0.05; done"
    write_command(bin_folder, "sbatch", f"touch {started}; {waiting}; touch {done}; echo 7")
    folder = tmp_path / "attempt"
    folder.mkdir()
    script = "import sys; from pathlib import Path; from neox_train.cluster.sbatch import call_sbatch; "
    script += "call_sbatch(Path('job.sh'), Path(sys.argv[1]))"
    submitter = subprocess.Popen([sys.executable, "-c", script, str(folder)], env=os.environ)
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    wait_for_sbatch(folder, seconds=0.0)
    submitter.kill()
    submitter.wait()
    assert not done.exists()
    go.touch()
    wait_for_sbatch(folder, seconds=60.0)
    assert done.exists()


def test_nothing_of_an_outer_job_reaches_slurm(
    tmp_path: Path, run: RunFolder, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (CASES / "15-inherited.env").read_text().splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    before = dict(os.environ)
    write_command(bin_folder, "sbatch", f"env > {tmp_path}/env; cp $2 {tmp_path}/script; echo Submitted batch job 7")
    for name in ("squeue", "sacct", "scancel"):
        write_command(bin_folder, name, f"env > {tmp_path}/{name}-env; exit 0")
    job = submit(run)
    job.state()
    job.end()
    for name in ("env", "squeue-env", "sacct-env", "scancel-env"):
        seen = [line for line in (tmp_path / name).read_text().splitlines() if line.startswith("SLURM_")]
        assert seen == ["SLURM_CONF=conf/slurm.conf"], name
    script = (tmp_path / "script").read_text()
    for option in ("--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=3", "--mem=6G", "--job-name=serial-1"):
        assert f"#SBATCH {option}\n" in script
    assert "16384" not in script
    assert dict(os.environ) == before


def queue(bin_folder: Path, line: str) -> None:
    """squeue knows one job: ``line`` is its state, partition, start estimate, nodes, name and reason."""
    write_command(
        bin_folder, "squeue", f"case \"$*\" in *--sort*) printf '5\\n815\\n9\\n';; *) echo '815|{line}';; esac"
    )


def followed(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> SlurmJob:
    monkeypatch.setenv("NEOX_TRAIN_POLL_SECONDS", "0")
    return SlurmJob(run, intent("815"), "815", None)


def test_a_waiting_job_says_place_reason_and_expected_start(
    run: RunFolder, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(bin_folder, "PENDING|h100|2026-03-01T08:30:00||serial-1|(Priority)")
    state = followed(run, monkeypatch).state()
    assert state.phase == PENDING
    assert state.detail == "PENDING (Priority), place 2 of 3 in h100, start expected 2026-03-01 08:30:00"


def test_a_node_failure_is_an_end_only_when_it_lasts(
    run: RunFolder, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = followed(run, monkeypatch)
    queue(bin_folder, "NODE_FAIL|h100|N/A|node1|serial-1|None")
    assert job.state().phase == PENDING
    queue(bin_folder, "RUNNING|h100|N/A|node2|serial-1|None")
    assert job.state().phase == RUNNING
    monkeypatch.setattr(slurm_job, "_LIMBO_SECONDS", 0.0)
    queue(bin_folder, "NODE_FAIL|h100|N/A|node1|serial-1|None")
    state = job.state()
    assert (state.phase, state.word) == (ENDED, "NODE_FAIL")


def test_a_silent_controller_is_unknown_and_a_forgotten_job_is_over(
    run: RunFolder, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = followed(run, monkeypatch)
    write_command(bin_folder, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    state = job.state()
    assert state.phase == UNKNOWN
    assert "Unable to contact slurm controller" in state.detail
    # The accounting knows ends though the controller is away.
    write_command(bin_folder, "sacct", "echo 'TIMEOUT'")
    assert job.state().word == "TIMEOUT"
    write_command(bin_folder, "sacct", "exit 1")
    write_command(bin_folder, "squeue", "exit 0")
    assert job.state().phase == PENDING
    monkeypatch.setattr(slurm_job, "_GONE_SECONDS", 0.0)
    assert job.state().phase == ENDED


def test_the_ranks_own_records_need_no_scheduler(
    run: RunFolder, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = followed(run, monkeypatch)
    for rank in range(4):
        assert job.state().phase == UNKNOWN
        RankRecord.begin(job.folder, "815", rank, 2).end(job.folder, "815", FINISHED)
    assert (job.state().phase, job.state().detail) == (ENDED, "COMPLETED")
    # A later start of the same job is not finished yet.
    RankRecord.begin(job.folder, "815", 0, 3)
    assert job.state().phase == UNKNOWN
