from __future__ import annotations

from pathlib import Path

from neox_train.config.reference import render_reference


def test_the_page_is_that_of_the_schema(repository: Path) -> None:
    written = (repository / "docs" / "configuration.md").read_text()
    assert written == render_reference(), "run: neox-train config reference"


def test_a_row_has_five_cells_and_every_status_occurs() -> None:
    page = render_reference()
    for line in page.splitlines():
        if line.startswith("| `") and "## Names" not in line and line in page.split("## Inside")[0]:
            assert line.replace("\\|", "").count("|") == 6
    for line in page.split("## Inside", 1)[1].split("## Names")[0].splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") == 6
    assert "| `zenflow` | block or null |  | Update the most important gradients at once" in page
    assert "on the host later. | refused: ZenFlow is not built" in page
    for words in (
        "| in force",
        "| accepted, without effect here",
        "| refused: known, not built",
        "| computed from other keys",
    ):
        assert words in page
    assert "`moe_num_experts` | int | `1` | Experts of a mixture-of-experts MLP. | refused: known, not built" in page
