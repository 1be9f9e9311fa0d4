import pytest

from neox_train.cluster.gpu_table import KNOWN_GPUS, find_gpu, find_gpus, refusal


@pytest.mark.parametrize(
    ("slurm_type", "features", "keys"),
    [
        ("a100", (), ["a100-40gb", "a100-80gb"]),
        ("a100", ("milan", "node1600"), ["a100-40gb", "a100-80gb"]),
        ("a100_80gb", (), ["a100-80gb"]),
        ("A100", ("gpu80",), ["a100-80gb"]),
        ("", ("hbm80g", "a100"), ["a100-80gb"]),
        ("nvidia_a100-sxm4-40gb", (), ["a100-40gb"]),
        ("nvidia_h100_80gb_hbm3", (), ["h100"]),
        ("gh200", (), ["gh200"]),
        ("h200", (), ["h200"]),
        ("l40s", (), ["l40s"]),
        ("v100", ("v100_32",), ["v100-32gb"]),
        ("rtx", (), []),
        ("", (), []),
    ],
)
def test_names_of_sites(slurm_type: str, features: tuple[str, ...], keys: list[str]) -> None:
    assert [gpu.key for gpu in find_gpus(slurm_type, features)] == keys


@pytest.mark.parametrize(("name", "word"), [("mi250x", "AMD"), ("MI250", "AMD"), ("pvc", "Intel"), ("p100", "older")])
def test_gpus_that_no_training_runs_on(name: str, word: str) -> None:
    assert word in str(refusal(name))
    assert refusal("h100") is None


@pytest.mark.parametrize("known", KNOWN_GPUS, ids=lambda known: known.key)
def test_entries_say_where_their_numbers_come_from_and_that_none_was_measured(known) -> None:
    gpu = known.build("")
    assert find_gpu(known.key) is known
    assert gpu.type == known.key
    for figures in (gpu, gpu.peak_tflops, gpu.links):
        assert figures.source and not figures.measured
    assert (gpu.peak_tflops.fp8 is not None) == (gpu.compute_capability >= 8.9)
    assert (gpu.peak_tflops.bfloat16 is not None) == (gpu.compute_capability >= 8.0)


def test_every_gpu_has_what_predictions_of_speed_need() -> None:
    for known in KNOWN_GPUS:
        gpu = known.build("")
        assert gpu.memory_gb_per_second and gpu.peak_tflops.fp16 and gpu.links
