import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import submitit
from submitit.slurm.slurm import _make_sbatch_string

from neox_train.cluster.parameters import local_parameters, rank_python, slurm_parameters
from neox_train.config.cluster import Cluster, Gpu
from neox_train.errors import ConfigError

H100 = Gpu(type="h100", memory_gib=80, compute_capability=9.0)


def slurm_cluster(**changes: object) -> Cluster:
    facts = {
        "name": "h100",
        "executor": "slurm",
        "device": "cuda",
        "gpu": H100,
        "processes_per_node": 4,
        "cpus_per_process": 12,
        "partition": "h100",
        "account": "042798",
        "qos": "long",
        "constraint": "gpu80",
        "time_limit_minutes": 1440,
        "signal_lead_seconds": 240,
        "environment": {"NCCL_DEBUG": "WARN"},
        "setup": ["module load cuda/12.9"],
    }
    return Cluster.model_validate({**facts, **changes})


def parameters(cluster: Cluster, nodes: int = 2) -> dict[str, Any]:
    code = {"PYTHONPATH": "/run/code", "PYTHONSAFEPATH": "1"}
    return slurm_parameters(cluster, nodes, name="r-1", signal_lead_seconds=240, code=code)


def script(tmp_path: Path, cluster: Cluster, nodes: int = 2) -> list[str]:
    text = _make_sbatch_string(command="run", folder=tmp_path / "%j", **parameters(cluster, nodes))
    return text.splitlines()


def test_sbatch_script_has_the_profile_and_an_explicit_limit(tmp_path: Path) -> None:
    lines = script(tmp_path, slurm_cluster())
    for wanted in (
        "--job-name=r-1",
        "--partition=h100",
        "--account=042798",
        "--qos=long",
        "--constraint=gpu80",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=12",
        "--gpus-per-node=4",
        "--time=1440",
        "--signal=USR2@240",
        "--requeue",
    ):
        assert f"#SBATCH {wanted}" in lines
    assert "module load cuda/12.9" in lines
    assert 'export NCCL_DEBUG="WARN"' in lines
    assert 'export SRUN_CPUS_PER_TASK="12"' in lines
    assert 'export PYTHONPATH="/run/code"' in lines
    srun = next(line for line in lines if line.startswith("srun"))
    assert "--kill-on-bad-exit=1" in srun
    assert "--cpus-per-task=12" in srun


@pytest.mark.parametrize(
    ("style", "present", "absent"),
    [
        ("gres", "--gres=gpu:4", "--gpus-per-node"),
        ("none", "--nodes=2", "gpu:"),
        ("gpus-per-node", "--gpus-per-node=4", "--gres"),
    ],
)
def test_gres_styles(tmp_path: Path, style: str, present: str, absent: str) -> None:
    options = [line for line in script(tmp_path, slurm_cluster(gres_style=style)) if line.startswith("#SBATCH")]
    assert any(present in line for line in options)
    assert not any(absent in line for line in options)


def test_extra_options_pass_through(tmp_path: Path) -> None:
    extra = {"hint": "nomultithread", "exclusive": ""}
    lines = script(tmp_path, slurm_cluster(reservation="maintenance", slurm_extra=extra))
    assert "#SBATCH --exclusive" in lines
    assert "#SBATCH --reservation=maintenance" in lines
    assert "#SBATCH --hint=nomultithread" in lines


def test_memory_mail_and_excluded_nodes(tmp_path: Path) -> None:
    facts = {"memory_per_node": "0", "exclude": "node7", "mail_type": "END"}
    lines = script(tmp_path, slurm_cluster(**facts))
    assert "#SBATCH --mem=0" in lines
    assert "#SBATCH --exclude=node7" in lines
    assert not any("--mail" in line for line in lines), "without an address Slurm would write to a local user"
    lines = script(tmp_path, slurm_cluster(mail_user="me@example.org", **facts))
    assert {"#SBATCH --mail-user=me@example.org", "#SBATCH --mail-type=END"} <= set(lines)


def test_local_parameters_are_those_of_submitit(tmp_path: Path) -> None:
    parameters = local_parameters(Cluster(processes_per_node=2, time_limit_minutes=90), 1)
    submitit.LocalExecutor(folder=tmp_path).update_parameters(**parameters)
    assert (parameters["tasks_per_node"], parameters["timeout_min"]) == (2, 90)


def test_local_gpus_are_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(device="cuda", gpu=H100, processes_per_node=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert local_parameters(cluster, 1)["visible_gpus"] == (2, 5)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "visible_gpus" not in local_parameters(cluster, 1)


def test_two_nodes_need_slurm() -> None:
    with pytest.raises(ConfigError, match="nodes: 2"):
        local_parameters(Cluster(), 2)


def test_local_setup_lines_run_before_the_interpreter() -> None:
    python = rank_python(Cluster(setup=["export GREETING='hello there'"]))
    words = [*shlex.split(python), "-c", "import os; print(os.environ['GREETING'])"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "hello there\n"
