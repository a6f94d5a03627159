"""Files that commands write where the user says."""

import os
from pathlib import Path

import pytest

from fedactive.files import load_toml, write_output


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # as /dev/stdout may be one, or /dev/null a device
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_output(pipe, b"page")
        assert os.read(reader, 100) == b"page"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    page, link = tmp_path / "public" / "page.html", tmp_path / "page.html"
    page.write_bytes(b"old")
    link.symlink_to(page)
    write_output(link, b"new")
    assert link.is_symlink()
    assert page.read_bytes() == b"new"


@pytest.mark.parametrize("text", ["a = " + "[" * 10_000, "a = " + "{a = " * 10_000])
def test_a_toml_text_that_is_nested_without_end_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        load_toml(text)
