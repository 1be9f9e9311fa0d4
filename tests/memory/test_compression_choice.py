"""What ``gradient_compression: auto`` takes follows from the advice, and from what a checkpoint holds."""

from dataclasses import replace

import pytest

from neox_train.memory.compression_advice import Link, StepFacts
from neox_train.memory.compression_choice import choose_method

FACTS = StepFacts(replicas=2, parameters=25_000_000, element_bytes=4, compute_seconds=0.5)
FAST, MIDDLE, SLOW = Link(gb_per_second=100), Link(gb_per_second=0.3), Link(gb_per_second=0.05)
ALL = ("none", "bf16", "powersgd", "local_update")


@pytest.mark.parametrize(("link", "method"), [(FAST, "none"), (MIDDLE, "bf16"), (SLOW, "powersgd")])
def test_a_new_training_takes_what_is_advised_and_says_on_what_grounds(link: Link, method: str) -> None:
    choice = choose_method(link, FACTS, allowed=ALL)
    assert choice.method == method
    assert choice.sentence.startswith(f"gradient_compression auto: {method}; measured {link.gb_per_second:.3g} GB/s")
    assert "2 replicas, 100 MB of gradients, 0.5 s of computing a step" in choice.sentence
    assert "\n" not in choice.sentence


def test_only_what_the_configuration_goes_with_is_taken() -> None:
    assert choose_method(SLOW, FACTS, allowed=("none", "bf16")).method == "bf16"
    assert choose_method(SLOW, FACTS, allowed=("none",)).method == "none"


@pytest.mark.parametrize("previous", ["none", "bf16", "fp16"])
def test_a_resumed_training_changes_from_a_method_that_keeps_nothing(previous: str) -> None:
    choice = choose_method(SLOW, FACTS, allowed=ALL, previous=previous)
    assert choice.method == "powersgd"
    assert f"powersgd in place of the checkpoint's {previous};" in choice.sentence
    assert choose_method(SLOW, FACTS, allowed=ALL, previous=previous, is_fixed=True).method == previous


@pytest.mark.parametrize("previous", ["powersgd", "local_update"])
def test_a_resumed_training_keeps_a_method_whose_state_no_other_reads(previous: str) -> None:
    choice = choose_method(FAST, FACTS, allowed=ALL, previous=previous)
    assert choice.method == previous
    assert f"{previous}, kept although none is advised now: the checkpoint holds" in choice.sentence


def test_what_is_still_right_is_kept() -> None:
    assert ": bf16, as in the checkpoint;" in choose_method(MIDDLE, FACTS, allowed=ALL, previous="bf16").sentence


def test_a_small_difference_changes_nothing() -> None:
    # 16 bits save a little here, below the margin that a method must win by: a noisy figure must not flip a training.
    link = Link(gb_per_second=0.5)
    facts = replace(FACTS, compute_seconds=5.0)
    assert choose_method(link, facts, allowed=ALL).method == "none"
    kept = choose_method(link, facts, allowed=ALL, previous="bf16")
    assert kept.method == "bf16"
    assert "by less than 15%" in kept.sentence


def test_one_replica_sends_nothing() -> None:
    alone = replace(FACTS, replicas=1)
    assert choose_method(None, alone, allowed=ALL).method == "none"
    assert choose_method(None, alone, allowed=ALL, previous="powersgd").method == "powersgd"
    assert "one replica sends nothing" in choose_method(None, alone, allowed=ALL).sentence
