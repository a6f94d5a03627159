"""What careless and malicious people give to a program: texts, and files of the wrong kind."""

from __future__ import annotations

import os
import random
from pathlib import Path

from fuzz.payload import payloads
from support.damage import flip, garbage, other_value, other_word, truncate

TEXTS = (
    *("", " ", "-", "--", ".", "..", "/", "~", "~nobody", "*", "%s%n", "{}", "[red]", "[/]", "None", "null"),
    *("nan", "inf", "-inf", "1e999", "-1", "-0.0", "0", "1", "2", "0.5", "1e-320", "1e308", "0x10", "1_000"),
    *("9" * 30, "9" * 5000, "١", "²", "½", "1.5.2", "0/client", "10/client", "5+/client", "+/client"),
    *("true", "TRUE", "a=b", "a=b,a=c", "=", ",", ";", ",,", "a,b", "width=0", "micro=micro", "selector=x"),
    *(
        "\udcff",
        "a\udc80b",
        "é",
        "é",
        "\u202egnp",
        "\x1b[2J",
        "a\nb",
        "\t",
        "\x7f",
        "￿",
        "🦆",
        "a b",
        "'",
        '"',
    ),
    *("x" * 300, "x" * 10_000, "a/" * 2000, "../../etc/passwd", "/dev/null", "/proc/self/mem", "host:1"),
    *(
        "localhost:²",
        "localhost:99999",
        "[::1]:80",
        "a:b:c",
        ":",
        "http://",
        "1-38",
        "5-1",
        "1-²",
        "3-",
        "-3",
    ),
    *(
        "cuda",
        "cuda:99",
        "cuda:",
        "cpu,cpu",
        "meta",
        "mps",
        "lazy",
        "2026-13-01",
        "logo",
        "random",
        "cifar10",
    ),
)
PLACES = ("file", "folder", "loop", "nowhere", "file.npz", "file.csv", "file.toml", "file.onnx", "file.pt")
PLACES += ("file.safetensors", "file.parquet", "folder.npz", "folder.toml", "file.py", "out/x", "file/x")


def fill(place: Path, rng: random.Random) -> None:
    """Put files and folders there that are not what they are called."""
    for name in PLACES:
        path = place / name
        if name == "loop":
            os.symlink("loop", path)
        elif name == "nowhere":
            os.symlink("missing", path)
        elif name.startswith("folder"):
            path.mkdir()
        elif "/" not in name:
            path.write_bytes(rng.choice([b"", b"\x00", b"a,b\n1,2\n", *payloads(), garbage(b"", rng)]))


def text(rng: random.Random) -> str:
    return rng.choice(TEXTS) if rng.random() < 0.8 else rng.choice(PLACES)


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return the content as something else has left it."""
    ways = [truncate, flip, garbage, duplicate, exchange]
    if is_text(content):
        ways += [other_word, other_word, other_value, other_value, odd_characters]
    if not content:
        ways = [garbage]
    try:
        return rng.choice(ways)(content, rng)
    except (ValueError, IndexError):  # no word or value that could be another one
        return flip(content, rng)


def is_text(content: bytes) -> bool:
    return bool(content) and b"\x00" not in content and content.isascii()


def duplicate(content: bytes, rng: random.Random) -> bytes:
    """Write a part of it twice."""
    first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:last] + content[first:]


def exchange(content: bytes, rng: random.Random) -> bytes:
    """Write numbers into it that are too large for what follows."""
    at, size = rng.randrange(len(content)), rng.choice((1, 2, 4, 8))
    number = rng.choice((0, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), 1)).to_bytes(size, rng.choice(ENDS))
    return content[:at] + number + content[at + size :]


def odd_characters(content: bytes, rng: random.Random) -> bytes:
    """Put a character into it that few expect."""
    at = rng.randrange(len(content))
    return content[:at] + rng.choice(TEXTS).encode(errors="surrogateescape") + content[at:]


ENDS = ("little", "big")
