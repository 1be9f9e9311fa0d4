import pytest
import torch

from neox_train.config.grid import GridShape
from neox_train.errors import TrainingError
from neox_train.training.distributed import RankContext
from neox_train.training.failures import explain_failures
from neox_train.training.grid import ParallelGrid
from neox_train.training.traffic import TrafficMeter

RANK = RankContext(
    rank=3,
    world_size=8,
    local_rank=3,
    device=torch.device("cpu"),
    grid=ParallelGrid(shape=GridShape(dp=8), rank=3),
    traffic=TrafficMeter(torch.device("cpu"), GridShape(dp=8)),
)


def raise_here(error: Exception) -> None:
    with explain_failures(RANK):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242"),
        RuntimeError("[c10d] gloo: Timed out waiting 600000ms for recv operation to complete"),
        torch.distributed.DistBackendError("NCCL error: remote process exited or there was a network error"),
        torch.distributed.DistNetworkError("The client socket has timed out after 600000ms"),
    ],
)
def test_a_lost_rank_is_one_sentence(error: Exception) -> None:
    with pytest.raises(TrainingError, match=r"rank 3: another rank is gone.*same command continues"):
        raise_here(error)


def test_a_full_gpu_names_the_keys_to_set() -> None:
    with pytest.raises(TrainingError, match=r"rank 3.*Tried to allocate 2\.00 GiB.*train_micro_batch_size_per_gpu"):
        raise_here(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"))


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("gloo")])
def test_a_fault_of_the_program_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        raise_here(error)
