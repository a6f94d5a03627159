import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Embeddings of each test in a folder of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FEDACTIVE_CACHE", str(folder))
    return folder
