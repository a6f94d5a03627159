"""Whatever goes wrong in a reader becomes one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedactive.data.soundness import guarded, require_sound
from fedactive.errors import DataError

PATH = Path("some.npz")


@pytest.mark.parametrize(
    ("error", "reason"), [(ValueError("two\n  lines"), "two lines"), (EOFError(), "EOFError")]
)
def test_an_error_of_a_library_is_told_in_one_line(error: Exception, reason: str):
    def read(path: Path) -> None:
        raise error

    with pytest.raises(DataError, match=rf"^some\.npz: damaged, or not in the expected format \({reason}\)$"):
        guarded(read, PATH)


@pytest.mark.parametrize("labels", [[-1, 0], [0, 3]])
def test_one_label_that_is_no_class_is_enough(labels: list[int]):
    with pytest.raises(DataError, match=f"train_labels run from {labels[0]} to {labels[1]}, expected 0 to 2"):
        require_sound(PATH, {"train_labels": np.array(labels)}, (1, 8, 8), classes=3)
    require_sound(PATH, {"train_labels": np.array([0, 2])}, (1, 8, 8), classes=3)
