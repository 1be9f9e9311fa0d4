from __future__ import annotations

import pytest

from tests.config.files import load_tiny, refuse_tiny


def test_heads() -> None:
    sentence = refuse_tiny(num_attention_heads=5)
    assert "hidden_size 64 is not a multiple of num_attention_heads 5" in sentence
    assert "base.yml, line 4" in sentence
    assert "num_attention_heads 4 is not a multiple of num_kv_heads 3" in refuse_tiny(num_kv_heads=3)
    assert "num_kv_heads 1 is not a multiple of model_parallel_size 2" in refuse_tiny(
        num_kv_heads=1, model_parallel_size=2, processes=2
    )
    assert load_tiny(num_kv_heads=1).num_kv_heads == 1


def test_sequence() -> None:
    assert "seq_length 128 is more than max_position_embeddings 64" in refuse_tiny(seq_length=128)
    assert load_tiny(seq_length=None).seq_length == 64


def test_rotary_dimensions_come_in_pairs() -> None:
    assert "rotates 3 dimensions; an even number" in refuse_tiny(rotary_pct=0.2)
    assert "rotates 0 dimensions" in refuse_tiny(rotary_pct=0.01)
    assert load_tiny(rotary_pct=0.2, pos_emb="learned").rotary_pct == 0.2


def test_tied_norms_need_a_parallel_residual() -> None:
    assert "set gpt_j_residual: true" in refuse_tiny(gpt_j_tied=True)
    assert load_tiny(gpt_j_tied=True, gpt_j_residual=True).gpt_j_tied


def test_saving() -> None:
    assert "set checkpoint_factor" in refuse_tiny(save="checkpoints", checkpoint_factor=None)
    assert load_tiny(save="checkpoints", checkpoint_factor=None, extra_save_iters=[0, 5]).extra_save_iters == [0, 5]
    assert "a whole number of steps" in refuse_tiny(checkpoint_factor=0.5)
    assert "a whole number of steps" in refuse_tiny(checkpoint_factor=0)
    assert "checkpoint_factor is -3; with checkpoint_scale linear a whole number of steps from 1 on" in refuse_tiny(
        checkpoint_factor=-3
    )
    assert "extra_save_iters holds -1; steps of 0" in refuse_tiny(extra_save_iters=[0, -1])
    assert load_tiny(checkpoint_factor=1.5, checkpoint_scale="log").checkpoint_factor == 1.5
    assert "a number above 1" in refuse_tiny(checkpoint_factor=1, checkpoint_scale="log")


def test_phases_of_wsd_fit_into_its_span() -> None:
    sentence = refuse_tiny(lr_decay_style="wsd", warmup=0.6, wsd_decay_fraction=0.5)
    assert "warmup 0.6 and wsd_decay_fraction 0.5 are shares of one span" in sentence and "make one of them" in sentence
    load_tiny(lr_decay_style="wsd", warmup=0.9, wsd_decay_fraction=0.1)
    load_tiny(lr_decay_style="cosine", warmup=0.95)
    assert "wsd_decay_fraction is 1.5; at most 1" in refuse_tiny(wsd_decay_fraction=1.5)
    assert "lr_decay_fraction is 1.5; at most 1" in refuse_tiny(lr_decay_fraction=1.5, lr_decay_iters=None)
    assert "warmup is 1.2; at most 1" in refuse_tiny(warmup=1.2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_layers": 10**12}, "num_layers is 1000000000000; at most 10000 is wanted"),
        ({"num_layers": 1e12}, "num_layers is 1000000000000.0; a whole number is wanted"),
        ({"seed": 10**10}, "seed is 10000000000; less than 4294967296 is wanted"),
        ({"attention_config": [[["global"], 10**12]]}, "attention_config gives 1000000000000 layers, num_layers is 2"),
        (
            {"model_parallel_size": 10**12, "processes": 10**12},
            "is not a multiple of model_parallel_size 1000000000000",
        ),
        ({"vocab_size": 0}, "vocab_size is 0; at least 1 is wanted"),
        ({"vocab_size": -1}, "vocab_size is -1; at least 1 is wanted"),
        ({"vocab_size": 2**40}, "at most 2147483647 is wanted"),
    ],
)
def test_numbers_beyond_reason_get_one_sentence_at_once(changes: dict[str, object], sentence: str) -> None:
    assert sentence in refuse_tiny(**changes)


def test_tensor_parallelism_names_the_degrees_that_fit() -> None:
    sentence = refuse_tiny(num_attention_heads=4, model_parallel_size=3, processes=3)
    assert (
        "num_attention_heads 4 is not a multiple of model_parallel_size 3; set model_parallel_size to 1 or 2"
        in sentence
    )
    sentence = refuse_tiny(seq_length=62, model_parallel_size=4, sequence_parallel=True, processes=4)
    assert "seq_length 62 is not a multiple of model_parallel_size 4" in sentence
    sentence = refuse_tiny(activation="swiglu", model_parallel_size=2, processes=2)
    assert "set intermediate_size so that it becomes 86, or mlp_multiple_of: 2" in sentence


def test_pipelines() -> None:
    sentence = refuse_tiny(pipe_parallel_size=4, processes=4)
    assert "pipe_parallel_size 4 is more than num_layers 2" in sentence
    for stage in (2, 3):
        sentence = refuse_tiny(pipe_parallel_size=2, zero_optimization={"stage": stage}, processes=2)
        assert f"zero_optimization.stage {stage} does not go with pipe_parallel_size 2" in sentence
    assert load_tiny(pipe_parallel_size=2, zero_optimization={"stage": 1}, processes=2).pipe_parallel_size == 2


@pytest.mark.parametrize("method", ["profile", "type:mlp", "best"])
def test_an_unknown_way_to_deal_stages_names_the_known_ones(method: str) -> None:
    sentence = refuse_tiny(pipe_partition_method=method)
    assert (
        f"pipe_partition_method is '{method}'; type:transformer (layers), uniform or parameters is wanted" in sentence
    )


def test_the_block_of_local_windows_has_known_keys() -> None:
    assert "sparsity_config.blok is not a known key; did you mean block?" in refuse_tiny(sparsity_config={"blok": 16})
    assert "sparsity_config.zzz is not a known key; remove it (known are" in refuse_tiny(sparsity_config={"zzz": 16})


def test_a_loss_scale_is_not_negative_and_a_backend_is_known() -> None:
    assert "loss_scale" in refuse_tiny(fp16={"enabled": True, "loss_scale": -1})
    assert "hysteresis" in refuse_tiny(fp16={"enabled": True, "hysteresis": 0})
    assert "'nccl' or 'gloo'" in refuse_tiny(distributed_backend="mpi")


def test_without_a_number_of_processes_there_is_one_replica() -> None:
    cut = load_tiny(model_parallel_size=2, pipe_parallel_size=2)
    assert (cut.world_size, cut.data_parallel_size) == (4, 1)
