"""The README: its Python example is run as it stands, and its links and numbers are those of the repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedactive

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(document):
    return re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_runs_and_prints_an_accuracy_per_round(tmp_path):
    (code,) = python_blocks(README)
    # A plain script, without a main guard: it must not matter that training uses worker processes.
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\d\s+0\.\d+", done.stdout, re.MULTILINE)) == 3
    assert len(list((tmp_path / "runs").glob("digits-*"))) == 1


@pytest.mark.parametrize("document", ["USAGE.md", "START.md"])
def test_other_documents_show_the_same_example(document):
    assert python_blocks(ROOT / "docs" / document)[0] == python_blocks(README)[0]


def test_the_other_examples_of_usage_run(tmp_path):
    rest = python_blocks(ROOT / "docs" / "USAGE.md")[1:]
    (tmp_path / "example.py").write_text("\n".join(rest))
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^logo +1 .*\n +2 ", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^\d+ labels: \d", done.stdout, re.MULTILINE)) == 2
    assert (tmp_path / "digits.svg").read_text().count("logo") == 1


def test_the_names_of_the_example_are_there_to_complete():
    assert set(fedactive.__all__) <= set(dir(fedactive))


def test_the_two_commands_come_first():
    text = README.read_text(encoding="utf-8")
    assert text.index("make demo") < text.index("make test") < text.index("## ")


def anchors(document):
    """The headings of a document as GitHub links to them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings_that_exist(document):
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{document.name} links to {link}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(document):
    """Files of the package, with or without `src/fedactive/`, and others by their path in the repository."""
    named = re.findall(r"`([a-z0-9_]+/[a-z0-9_./-]+\.\w+)`", document.read_text(encoding="utf-8"))
    places = (ROOT, ROOT / "src" / "fedactive", ROOT / "tests")
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert not missing


def test_the_readmes_few_labels_are_those_of_the_document():
    text = " ".join(README.read_text(encoding="utf-8").split())
    few = (ROOT / "docs" / "FEW-LABELS.md").read_text(encoding="utf-8")
    table = few[few.index("<!-- few-labels: dataset=cifar10 alpha=0.1 algorithm=fedavg") :]
    labels, row = (re.search(rf"^\| {name} \|.*$", table, re.MULTILINE)[0] for name in ("strategy", "`auto`"))
    accuracy = dict(zip(*([cell.strip() for cell in line.split("|")] for line in (labels, row)), strict=True))
    at_100, at_2500 = (re.search(r"[\d.]+", accuracy[n])[0] for n in ("100", "2,500"))
    assert f"{at_100}% with 100 labels of all clients together, and {at_2500}% with 2,500" in text
