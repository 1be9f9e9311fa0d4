"""What the workflow refuses before it launches anything, in one sentence."""

import re
import shutil
from pathlib import Path

import pytest

from neox_train.config.layout import RunFolder
from tests.workflow.working_copy import REPOSITORY, WorkingCopy

pytestmark = [pytest.mark.workflow, pytest.mark.timeout(300)]


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    return WorkingCopy.make(tmp_path / "copy")


def test_a_fresh_pipeline_plans_every_stage_of_every_run(copy: WorkingCopy) -> None:
    assert copy.planned_jobs() == {"tokenize": 1, "estimate": 2, "train": 2, "convert": 2, "evaluate": 2, "report": 1}
    assert not copy.results.exists()
    shutil.rmtree(copy.folder / "corpus")
    assert "dataset words: `source.files`: corpus/*.txt matches no file" in copy.dry_run()


def test_a_run_that_does_not_fit_stops_at_the_gate(copy: WorkingCopy) -> None:
    facts = copy.folder / "cluster_profiles/local/cluster.yaml"
    text = facts.read_text().replace("memory_gib_per_process: 2", "memory_gib_per_process: 0.05")
    facts.write_text(text.replace("results: results", "results: my results"))
    code, text = copy.snakemake()
    assert code != 0
    failures = [line for line in text.splitlines() if line.startswith("run ")]
    assert [line.split(":")[0] for line in failures if ", estimate: " in line] == [
        "run serial, estimate",
        "run parallel, estimate",
    ]
    for name in ("serial", "parallel"):
        run = RunFolder.of(copy.folder / "my results", name)
        assert not run.ledger.exists()
        assert not run.estimated.exists()
        assert run.memory_json.is_file()


def test_every_path_in_a_shell_command_is_quoted() -> None:
    for file in (REPOSITORY / "rules").glob("*.smk"):
        text = file.read_text()
        assert "{log}" not in text, file
        assert not re.search(r"[^\"]\$CLUSTER\b", text), file


def is_one_line(text: str) -> bool:
    """Whether nothing but Snakemake's greeting stands before the sentence, and nothing after it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("Using profile ")]
    return len(lines) == 1 and lines[0].startswith("error: ")


def test_a_misspelt_key_is_one_sentence_before_anything_runs(copy: WorkingCopy) -> None:
    (copy.folder / "parallel.yml").write_text('{"gpt_j_residal": true}\n')
    code, text = copy.snakemake()
    assert code == 2
    assert "parallel.yml" in text
    assert "gpt_j_residual" in text
    assert is_one_line(text)
    assert not copy.results.exists()


def test_a_pipeline_that_is_not_there(copy: WorkingCopy) -> None:
    (copy.folder / "pipeline.yaml").unlink()
    code, text = copy.snakemake()
    assert code == 2
    assert "pipeline.yaml" in text
    assert is_one_line(text)


def test_no_profile_no_facts(copy: WorkingCopy) -> None:
    code, text = copy.snakemake(profile=None)
    assert code == 2
    assert "--profile cluster_profiles/local" in text
    assert is_one_line(text)


def test_a_torn_ledger_is_one_sentence(copy: WorkingCopy) -> None:
    copy.run("serial").path.mkdir(parents=True)
    copy.run("serial").ledger.write_text('{"attempts": [')
    code, text = copy.snakemake()
    assert code == 4
    assert "job.json" in text
    assert is_one_line(text)


def test_results_that_cannot_be_a_folder_are_one_sentence(copy: WorkingCopy) -> None:
    copy.results.write_text("a file")
    code, text = copy.snakemake()
    assert code == 4
    assert "results is a file" in text
    assert is_one_line(text)
