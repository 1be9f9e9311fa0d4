import pytest

from neox_train.cluster import causes


@pytest.mark.parametrize(
    ("cause", "code"), [(causes.CONFIGURATION, 2), (causes.STORAGE, 4), (causes.HANG, 6), (causes.ERROR, 6), ("", 6)]
)
def test_the_exit_code_of_what_a_rank_found_is_that_of_what_a_command_finds(cause: str, code: int) -> None:
    error = causes.name_error(cause, "a sentence")
    assert (error.exit_code, str(error)) == (code, "a sentence")
