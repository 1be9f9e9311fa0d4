from typing import Any

import pytest

from neox_train.errors import ConfigError

from .files import load_tiny

PATHS = ["a", "b"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"train_data_weights": [1.0]}, "train_data_weights is set without train_data_paths"),
        ({"valid_data_weights": [1.0]}, "valid_data_weights is set without valid_data_paths"),
        ({"test_data_weights": [1.0]}, "test_data_weights is set without test_data_paths"),
        ({"test_data_paths": PATHS, "test_data_weights": [-1.0, 2.0]}, "numbers of 0 or more"),
        ({"valid_data_paths": ["a", "a"]}, "valid_data_paths is empty or names a dataset twice"),
        ({"valid_data_paths": PATHS, "valid_data_weights": [1.0]}, "valid_data_weights has 1 numbers for 2 valid"),
        ({"test_label_data_paths": ["a"]}, "test_label_data_paths is set without test_data_paths"),
        (
            {"train_data_paths": PATHS, "train_label_data_paths": ["a"]},
            "label_data_paths has 1 entries for 2 train_data",
        ),
        ({"weight_by_num_documents": True}, "weight_by_num_documents is set without"),
        ({"blend_temperature": 2.0}, "blend_temperature is set without"),
        ({"train_data_paths": []}, "train_data_paths is empty"),
        ({"train_data_paths": ["a", "a"]}, "names a dataset twice"),
        ({"train_data_paths": ["x/a", "./x/../x//a/"]}, "names a dataset twice"),
        ({"train_data_paths": PATHS, "train_data_weights": [1.0]}, "has 1 numbers for 2 train_data_paths"),
        ({"train_data_paths": PATHS, "train_data_weights": [1.0, -1.0]}, "numbers of 0 or more"),
        ({"train_data_paths": PATHS, "train_data_weights": [0.0, 0.0]}, "sum above 0"),
        (
            {"train_data_paths": PATHS, "train_data_weights": [1.0, 2.0], "weight_by_num_documents": True},
            "both set the weights",
        ),
    ],
)
def test_keys_that_contradict_each_other(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_tiny(**keys)


def test_a_whole_blend_loads() -> None:
    config = load_tiny(train_data_paths=PATHS, train_data_weights=[0.3, 0.7], blend_temperature=2.0)
    assert config.train_data_weights == [0.3, 0.7]
