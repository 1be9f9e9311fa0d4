from neox_train.training.progress import format_step

RECORD = {
    "step": 50,
    "loss": 3.14159,
    "lr": 6e-4,
    "grad_norm": 0.5,
    "loss_scale": None,
    "skipped_steps": 0,
    "tokens_per_second": 12345.6,
    "seconds_per_step": 2.0,
    "mfu": None,
}


def test_a_line_says_how_far_how_well_and_how_long() -> None:
    line = format_step(RECORD, train_iters=150)
    assert line == "step 50/150 | loss 3.1416 | lr 6.000e-04 | grad norm 0.500 | 12,346 tokens/s | 3 min 20 s to go"


def test_what_only_some_runs_have_is_added() -> None:
    record = {**RECORD, "loss": None, "loss_scale": 65536.0, "skipped_steps": 2, "mfu": 0.421}
    line = format_step(record, train_iters=50)
    assert "loss not finite" in line
    assert line.endswith("MFU 42.1% | loss scale 65536 | 2 skipped | done")
