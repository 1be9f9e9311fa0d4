"""Every refusal of a configuration names file and line, the key, its value and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from neox_train.config.load import load_config
from neox_train.config.reader import parse_yaml
from neox_train.config.support import require_trainable
from tests.config.files import TINY, refuse

REFUSED = """\
min_lr: 1.0
num_kv_heads: 3
num_attention_heads: 7
seq_length: 128
rotary_pct: 0.01
model_parallel_size: 3
pipe_parallel_size: 4
pipe_parallel_size: 2 | zero_optimization: {stage: 2}
zero_optimization: {allgather_partitions: true}
optimizer: {type: Adam}
optimizer: {type: Adam, params: {lr: 0.1, betas: [0.9]}}
optimizer: {type: Adam, params: {lr: 0.1, weight_decay: 0.1}}
optimizer: {type: Foo, params: {lr: 1}}
optimizer: {type: SGD, params: {lr: 0.1, nesterov: true}}
fp16: {loss_scale: 0}
fp16: {enabled: true} | bf16: {enabled: true}
precision: bfloat16 | fp16: {enabled: true}
data_types: {grad_accum_dtype: fp16} | precision: bfloat16
lr_decay_style: wsd | warmup: 0.9 | wsd_decay_fraction: 0.5
gpt_j_tied: true
split: '1,2,3,4'
split: '0,1'
tokenizer_type: Foo
attention_config: [[[global], 3]]
attention_config: [foo]
attention_config: [[global, 2]]
attention_config: [[[gmlp], all]]
intermediate_size: 10 | expansion_factor: 2.0
sparsity_config: {foo: 1}
sparsity_config: {block: 0}
sparsity_config: {num_local_blocks: 1, num_sliding_window_blocks: 2}
sparsity_config: {num_random_blocks: 3} | attention_config: [[[local], all]]
fp32_allreduce: true | communication_data_type: fp16
save: x | checkpoint_factor: 0.5
checkpoint_scale: log | checkpoint_factor: 1
checkpoint_factor: -3
extra_save_iters: [-1]
train_batch_size: 7
train_batch_size: 8 | gradient_accumulation_steps: 3
train_micro_batch_size_per_gpu: null
train_iters: null
train_iters: 100000000000000000
use_mup: true
mup_base_hidden_size: 4
use_mup: true | base_shapes_file: nothere
gradient_compression: onebit_adam | optimizer: {type: SGD, params: {lr: 0.1}}
gradient_compression: onebit_adam
gradient_compression: powersgd | zero_optimization: {stage: 2}
te_mha: true
te_mha: true | precision: bfloat16 | pos_emb: alibi
norm: te_rmsnorm
norm: scalenorm
pos_emb: rpe
deepspeed_extra_args: {optimizer: {}}
deepspeed_extra_args: {foo: 1}
gas: 2 | gradient_accumulation_steps: 3
save_interval: 3
mlp_type: llama
vocab_size: 0
world_size: 3 | model_parallel_size: 2
model_parallel_size: 2 | intermediate_size: 255
num_layers: 2.5
hidden_dropout: 1.0
zero_optimization: {stage: 4}
zero_optimization: {stage: 1, foo: 2}
zero_optimization: {stage: 1, offload_optimizer: {device: nvme}}
zero_optimization: {stage: 2, offload_param: {device: cpu}}
zero_optimization: {stage: 1, contiguous_gradients: false}
ffn_width: 3
save: false
gradient_clipping: 1e-400
optimizer: 3
optimizer: {type: Muon, params: {lr: 0.1}} | model_parallel_size: 2
optimizer: {type: SGD, params: {lr: 0.1}} | use_bnb_optimizer: true
bnb_paged: true
checkpoint_granularity: selective
use_qk_layernorm: true | model_parallel_size: 2
prescale_gradients: true | zero_optimization: {stage: 2}
moe_num_experts: 4
activation: foo
"""
REMEDIES = ("set ", "remove", "keep", "wanted", "choose", "make", "write", "use ", "leave", "raise", "enable ", "add ")


@pytest.mark.parametrize("case", REFUSED.splitlines())
def test_file_line_key_and_remedy(tmp_path: Path, case: str) -> None:
    own = tmp_path / "own.yml"
    own.write_text("# Mine.\n" + "\n".join(case.split(" | ")) + "\n")
    rest = tmp_path / "rest.yml"
    keys = parse_yaml(own.read_text(), "own").values if "1e-400" not in case else {}
    values = {key: value for file in TINY for key, value in parse_yaml(file.read_text(), "rest").values.items()}
    rest.write_text(yaml.safe_dump({key: value for key, value in values.items() if key not in keys}))
    sentence = refuse(lambda: require_trainable(load_config([rest, own])))
    assert f"{own}, line " in sentence, sentence
    said = sentence.replace(str(own), "")
    assert any(key.partition(":")[0] in said for key in case.split(" | ")), sentence
    assert any(word in said for word in REMEDIES) and (";" in said or "(" in said), sentence
