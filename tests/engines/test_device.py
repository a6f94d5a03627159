from unittest.mock import Mock

import pytest
import torch

from fedactive.engines import EngineShelf, shelf
from fedactive.engines.device import choose_device, warn_once
from fedactive.errors import ConfigurationError

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(
        ConfigurationError, match="device: 'cuda' was given, allowed is auto or cpu on this machine"
    ):
        choose_device("cuda")


def test_auto_is_the_cpu_without_a_word_where_there_is_no_gpu():
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")


def test_a_gpu_that_torch_cannot_use_is_told_once(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    warn_once.cache_clear()
    with pytest.warns(UserWarning, match="GPU is not used, because torch .* training on the CPU"):
        assert choose_device("auto") == torch.device("cpu")
    choose_device("auto")  # a second warning would be an error
    assert choose_device("cpu") == torch.device("cpu")


def test_one_of_several_gpus_must_be_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(
        ConfigurationError, match="'cuda:2' was given, allowed is cuda:0 or cuda:1 on this machine"
    ):
        choose_device("cuda:2")


def test_an_engine_on_one_of_several_gpus_makes_it_the_current_one(small, digits, monkeypatch):
    chosen = []
    monkeypatch.setattr(shelf, "choose_device", torch.device)
    monkeypatch.setattr(shelf, "BatchedEngine", Mock())
    monkeypatch.setattr(shelf, "SequentialEngine", Mock())
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    EngineShelf().get(small(device="cuda:1"), digits)
    EngineShelf().get(small(device="cuda"), digits)
    assert chosen == [torch.device("cuda:1")]
