"""Every key inside a block has a meaning, and a default that is the library's own."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from neox_train.config.block_meanings import FREE_NAMES, MEANINGS, PARAM_DEFAULTS, ZERO_DEFAULTS_OF_DEEPSPEED
from neox_train.config.block_table import list_blocks, read_block_entry
from neox_train.config.schema import NeoxKeys


def test_every_name_has_a_meaning_and_no_meaning_is_left_over() -> None:
    blocks = list(list_blocks())
    paths = {entry.path for _, _, entries in blocks for entry in entries}
    assert paths | {path for path, _, _ in blocks if "." in path} == MEANINGS.keys()
    assert all(text.endswith(".") and text[0].isupper() for text in MEANINGS.values())


def test_free_names_lie_in_blocks() -> None:
    for path in FREE_NAMES:
        assert path.partition(".")[0] in NeoxKeys.model_fields
        assert read_block_entry(path).meaning == FREE_NAMES[path][2]


def test_whatever_acts_has_a_default() -> None:
    bare = [
        entry.path
        for _, _, entries in list_blocks()
        for entry in entries
        if entry.status.startswith("in force") and not entry.default
    ]
    assert bare == []


@pytest.mark.parametrize("name", ZERO_DEFAULTS_OF_DEEPSPEED)
def test_defaults_of_zero_are_deepspeeds(name: str) -> None:
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    fields = {field.alias or key: field for key, field in DeepSpeedZeroConfig.model_fields.items()}
    assert fields[name].default == ZERO_DEFAULTS_OF_DEEPSPEED[name]


def test_defaults_of_optimizers_are_those_of_their_classes() -> None:
    import torch
    from deepspeed.runtime.fp16.onebit.lamb import OnebitLamb
    from deepspeed.runtime.fp16.onebit.zoadam import ZeroOneAdam

    from neox_train.training.lion import Lion
    from neox_train.training.muon import MuonWithAdamW

    sgd, muon, lamb, zero_one, lion, adam = map(
        _defaults, (torch.optim.SGD, MuonWithAdamW, OnebitLamb, ZeroOneAdam, Lion, torch.optim.AdamW)
    )
    expected: dict[str, str] = {
        "lr": f"{adam['lr']}",
        "betas": f"{list(adam['betas'])}; Lion: {list(lion['betas'])}",
        "eps": f"{adam['eps']}",
        "momentum": f"{sgd['momentum']}; Muon: {muon['momentum']}",
        "dampening": f"{sgd['dampening']}",
        "nesterov": f"{sgd['nesterov']}; Muon: {muon['nesterov']}".lower().replace("muon", "Muon"),
        "ns_steps": f"{muon['ns_steps']}",
        **{name: f"{zero_one[name]}" for name in ("var_update_scaler", "local_step_scaler", "local_step_clipper")},
        **{name: f"{lamb[name]}" for name in ("max_coeff", "min_coeff")},
    }
    by_length = {"freeze_step", "var_freeze_step"}  # A fifth of the training, as choose_one_bit_warmup's tests hold.
    assert {name: text for name, text in PARAM_DEFAULTS.items() if name not in by_length} == expected
    assert (list(muon["betas"]), muon["eps"]) == ([0.9, 0.999], 1e-8)


def _defaults(kind: type) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
