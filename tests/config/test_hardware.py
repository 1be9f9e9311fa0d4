from __future__ import annotations

import pytest

from neox_train.config.cluster import Cluster, Gpu
from neox_train.config.fp8 import uses_fp8
from neox_train.config.hardware import require_hardware
from tests.config.files import load_tiny, refuse


def gpus(kind: str, capability: float) -> Cluster:
    return Cluster(name=kind, device="cuda", gpu=Gpu(type=kind, memory_gib=40.0, compute_capability=capability))


CPU = Cluster()


@pytest.mark.parametrize("switch", [{"te_fp8": True}, {"te_fp8_recipe": "delayed"}])
def test_fp8_needs_capability_8_9(switch: dict[str, object]) -> None:
    config = load_tiny(te_mha=True, precision="bfloat16", **switch)
    require_hardware(config, gpus("l40s", 8.9))
    require_hardware(config, gpus("h100", 9.0))
    sentence = refuse(lambda: require_hardware(config, gpus("a100", 8.0)))
    assert "8.9" in sentence and "a100" in sentence and "8.0" in sentence
    assert "precision: bfloat16" in sentence
    assert next(iter(switch)) in sentence
    assert "FP8 needs a GPU" in refuse(lambda: require_hardware(config, CPU))


def test_fp8_attention_needs_capability_9() -> None:
    heads = {"hidden_size": 256, "num_attention_heads": 2, "seq_length": 128, "max_position_embeddings": 128}
    config = load_tiny(te_mha=True, precision="bfloat16", te_fp8_mha=True, **heads)
    require_hardware(config, gpus("h100", 9.0))
    assert "te_fp8: true" in refuse(lambda: require_hardware(config, gpus("l40s", 8.9)))
    assert "te_fp8_mha" in refuse(lambda: require_hardware(config, gpus("a100", 8.0)))


def test_recipes_of_later_gpus_are_refused_on_earlier_ones() -> None:
    layers = {"te_mha": True, "precision": "bfloat16"}
    mxfp8, blockwise = load_tiny(**layers, te_fp8_recipe="mxfp8"), load_tiny(**layers, te_fp8_recipe="blockwise")
    require_hardware(mxfp8, gpus("b200", 10.0))
    assert "te_fp8_recipe: current" in refuse(lambda: require_hardware(mxfp8, gpus("h100", 9.0)))
    assert "te_fp8_recipe: delayed" in refuse(lambda: require_hardware(blockwise, gpus("l40s", 8.9)))


def test_transformer_engine_is_refused_on_cpus_and_runs_in_16_bits_on_an_a100() -> None:
    config = load_tiny(te_mha=True, te_layernorm_mlp=True, precision="bfloat16")
    require_hardware(config, gpus("a100", 8.0))
    assert refuse(lambda: require_hardware(config, CPU)) == (
        "override te_mha and override te_layernorm_mlp: Transformer Engine needs a GPU, 'local' has CPUs; instead of "
        "te_mha: true, te_layernorm_mlp: true set te_mha: false, te_layernorm_mlp: false"
    )
    norm = load_tiny(norm="te_rmsnorm", precision="bfloat16")
    assert refuse(lambda: require_hardware(norm, CPU)).endswith("instead of norm: te_rmsnorm set norm: rmsnorm")


def test_fp8_parameters_alone_switch_nothing_on() -> None:
    config = load_tiny(te_fp8_margin=2, te_fp8_format="e4m3")
    assert not uses_fp8(config)
    require_hardware(config, gpus("a100", 8.0))
    said = [text for text in config.notices if "te_fp8" in text]
    assert len(said) == 1
    assert "te_fp8_format, te_fp8_margin do not switch FP8 on" in said[0]


def test_bfloat16_needs_capability_8() -> None:
    config = load_tiny(precision="bfloat16")
    require_hardware(config, gpus("a100", 8.0))
    require_hardware(config, CPU)
    assert "set precision: fp16" in refuse(lambda: require_hardware(config, gpus("v100", 7.0)))


def test_fp16_needs_a_gpu() -> None:
    config = load_tiny(precision="fp16")
    require_hardware(config, gpus("v100", 7.0))
    assert "set precision: bfloat16" in refuse(lambda: require_hardware(config, CPU))


@pytest.mark.parametrize("kind", ["CPU_Adam", "CPU_torch_adam"])
def test_optimizers_of_host_memory_are_for_cpus(kind: str) -> None:
    config = load_tiny(optimizer={"type": kind, "params": {"lr": 0.1}})
    require_hardware(config, CPU)
    assert "set optimizer.type: Adam" in refuse(lambda: require_hardware(config, gpus("a100", 8.0)))


def test_paged_states_need_a_gpu() -> None:
    config = load_tiny(use_bnb_optimizer=True, bnb_paged=True)
    require_hardware(config, gpus("a100", 8.0))
    assert "remove bnb_paged" in refuse(lambda: require_hardware(config, CPU))
