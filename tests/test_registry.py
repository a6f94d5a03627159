"""What is chosen by name, from outside the package too: the texts of the documents, used as they stand."""

import hashlib
import os
import subprocess
import sys

import pytest

from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.laboratory.run import run
from fedactive.query import STRATEGIES
from fedactive.query.contract import check_contract
from fedactive.registry import REGISTRIES, load_plugin
from support.commands import cli
from support.documents import plugin_from, python_block


@pytest.fixture
def plugin(tmp_path):
    return plugin_from("STRATEGIES.md", tmp_path)


def test_the_guides_strategy_keeps_the_contract(plugin):
    load_plugin(plugin)
    check_contract(STRATEGIES["disagreement"]())


def test_the_guides_strategy_that_looks_at_images_keeps_the_contract_and_runs(tmp_path, small):
    plugin = tmp_path / "mirrored.py"
    plugin.write_text(python_block("STRATEGIES.md", "class Mirrored"))
    load_plugin(plugin)
    check_contract(STRATEGIES["mirrored"]())
    scores = run(small(strategy="mirrored", rounds=2, fl_rounds=1)).selections.query("al_round == 2")["score"]
    assert 0 < scores.min() <= scores.max() <= 2


def test_it_runs_from_the_command_line(plugin, tmp_path):
    small = ("--dataset", "digits", "--clients", 3, "--rounds", 2, "--fl-rounds", 1, "--local-epochs", 1)
    done = cli("run", "--plugin", plugin, "--strategy", "disagreement", *small, "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "digits-disagreement-both-s1" in done.stdout
    unknown = cli("run", "--strategy", "disagreement", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "strategy: 'disagreement' was given" in unknown.stderr


def test_an_installed_package_is_found_by_its_entry_points(tmp_path):
    """What pip would leave behind: the modules, and a dist-info folder that names them."""
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    entries = ""
    for document, group in (
        ("STRATEGIES.md", "strategies"),
        ("ALGORITHMS.md", "algorithms"),
        ("OBJECTIVES.md", "objectives"),
        ("MODELS.md", "models"),
    ):
        entries += f"[fedactive.{group}]\nmine = {plugin_from(document, tmp_path).stem}\n"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    program = "from fedactive.registry import REGISTRIES; print([name for r in REGISTRIES for name in r])"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {"disagreement", "fedema", "focal", "vit", "logo", "fedavg", "kcfu", "cnn4"} <= set(
        eval(done.stdout)
    )


def test_names_are_known_without_importing_what_they_name():
    program = (
        "import sys; from fedactive.registry import REGISTRIES; print(*map(list, REGISTRIES)); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert "'logo'" in names
    assert loaded == "False"


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_file_of_a_folder_holds_what_its_name_says(registry):
    for name, cls in registry.items():
        assert cls.name == name
        assert cls.__module__ == f"{registry.package}.{name}"
        assert cls.summary
        assert cls.paper
    with pytest.raises(
        ConfigurationError, match=f"{registry.kind}: 'nonsense' .*--plugin my_{registry.kind}.py"
    ):
        registry["nonsense"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "a Python file that exists"),
        ("import nowhere", "cannot be loaded: ModuleNotFoundError"),
        ("x = (", "SyntaxError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named(tmp_path, content, sentence):
    path = tmp_path / "broken.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=sentence):
        load_plugin(path)


def test_changed_code_does_not_go_on_with_old_results(plugin, small):
    load_plugin(plugin)
    experiment = small(strategy="disagreement", rounds=2)
    run(experiment)
    run(experiment)
    with plugin.open("a") as file:
        file.write("\n# another version\n")
    load_plugin(plugin)
    with pytest.raises(RunError, match=r"strategy disagreement is not the same as when .* --fresh"):
        run(experiment)


SCORING = """
from fedactive.query import ScoringStrategy, register


@register
class Mine(ScoringStrategy):
    name, summary, paper = "mine", "", ""

    @staticmethod
    def score(outputs):
        return outputs.entropy
"""


FIRST = """
from fedactive.query import Selection, Strategy, register
import torch


@register
class Lowest(Strategy):
    name, summary, paper, selectors, needs = "lowest", "", "", ("none",), frozenset()
    needs_model = False

    def select(self, pool, budget, rng):
        chosen = torch.arange(min(budget, len(pool)))
        return Selection(chosen, torch.zeros(len(chosen)))
"""


def test_changed_code_of_what_chose_first_does_not_go_on_with_old_results(small, tmp_path):
    """Nor does a run of another strategy, which would share the first round."""
    plugin = tmp_path / "first.py"
    plugin.write_text(FIRST)
    load_plugin(plugin)
    one, two = (small(first="lowest", strategy=s, model="linear", rounds=1) for s in ("random", "entropy"))
    chosen = run(one).selections.groupby("client")["sample"].max()
    plugin.write_text(
        FIRST.replace(
            "torch.arange(min(budget, len(pool)))", "len(pool) - 1 - torch.arange(budget)  # the last"
        )
    )
    load_plugin(plugin)
    with pytest.raises(RunError, match="strategy lowest is not the same as when"):
        run(one)
    assert (run(two).selections.groupby("client")["sample"].max() > chosen).all()


def test_changed_code_of_logos_micro_step_does_not_go_on_with_old_results(small, tmp_path):
    plugin = tmp_path / "scoring.py"
    plugin.write_text(SCORING)
    load_plugin(plugin)
    mine, ours = (small(strategy_options=f"micro={name}", rounds=1) for name in ("mine", "margin"))
    for _ in range(2):
        run(mine)
        run(ours)
    plugin.write_text(SCORING.replace("outputs.entropy", "-outputs.entropy"))
    load_plugin(plugin)
    with pytest.raises(RunError, match="strategy logo is not the same as when"):
        run(mine)
    run(ours)


def test_code_in_one_file_is_known_by_that_files_hash(plugin):
    """As runs of released versions are: they must be found again."""
    plugin.write_text(plugin.read_text() + SCORING)
    load_plugin(plugin)
    found = {
        STRATEGIES.code_of("disagreement"),
        STRATEGIES.code_of("mine"),
        STRATEGIES.code_of("logo", "micro=mine"),
    }
    assert found == {hashlib.sha256(plugin.read_bytes()).hexdigest()}
    assert STRATEGIES.code_of("logo") is None


def changed(plugin, before, after):
    text = plugin.read_text()
    assert before in text
    plugin.write_text(text.replace(before, after))
    return plugin


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"disagreement"', '"logo"', "strategy logo comes with fedactive"),
        ("    needs = frozenset", "    uses = frozenset", "strategy Disagreement lacks needs"),
        ("    selectors =", "    chooser =", "strategy Disagreement lacks selectors"),
    ],
)
def test_a_strategy_that_cannot_be_used_is_told_when_it_is_loaded(plugin, before, after, message):
    with pytest.raises(UserError, match=message):
        load_plugin(changed(plugin, before, after))


def test_ones_own_strategy_may_be_registered_again(plugin):
    load_plugin(plugin)
    load_plugin(changed(plugin, '"yours"', '"mine"'))
    assert STRATEGIES["disagreement"].paper == "mine"


@pytest.mark.parametrize("choice", ["chosen[:1]", "chosen * 0", "chosen + len(pool)"])
def test_a_query_that_breaks_the_contract_is_no_result(plugin, small, choice):
    load_plugin(changed(plugin, "Selection(chosen,", f"Selection({choice},"))
    with pytest.raises(UserError, match=r"strategy disagreement chose .* it must choose"):
        run(small(strategy="disagreement", rounds=2))


@pytest.mark.parametrize(
    "answer",
    [
        "chosen",
        "Selection(chosen.tolist(), score[chosen])",
        "Selection(chosen, score[chosen].numpy())",
        "Selection(chosen.float(), score[chosen])",
    ],
)
def test_a_query_that_is_no_selection_of_tensors_is_told(plugin, small, answer):
    load_plugin(changed(plugin, "Selection(chosen, score[chosen])", answer))
    with pytest.raises(UserError, match="strategy disagreement did not return a Selection of"):
        run(small(strategy="disagreement", rounds=2, fl_rounds=1))


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ('"lokal"', "needs of strategy disagreement: 'lokal' was given, .* did you mean 'local'"),
        (
            '"global", "none"',
            "needs of strategy disagreement: 'none' was given, allowed is one of committee, distilled, ",
        ),
    ],
)
def test_a_model_that_does_not_exist_is_told_before_any_work(plugin, small, declared, sentence):
    load_plugin(changed(plugin, '{"global", "local"}', f"{{{declared}}}"))
    with pytest.raises(ConfigurationError, match=sentence):
        small(strategy="disagreement")


@pytest.mark.parametrize(
    ("asked", "model"),
    [("pool.unlabelled", "local"), ("pool.labelled", "finetuned"), ("pool.head", "lokal")],
)
def test_a_model_that_was_not_declared_is_told(plugin, small, asked, model):
    load_plugin(changed(plugin, '{"global", "local"}', '{"global"}'))
    load_plugin(changed(plugin, "        p, q =", f'        {asked}("{model}")\n        p, q ='))
    sentence = rf"strategy disagreement asked for the model '{model}', but there is only global; its `needs` must name"
    with pytest.raises(UserError, match=sentence):
        run(small(strategy="disagreement", rounds=2, fl_rounds=1))


def test_scores_are_one_for_each_choice(plugin, small):
    load_plugin(changed(plugin, "Selection(chosen, score[chosen])", "Selection(chosen, score)"))
    with pytest.raises(UserError, match="gave scores of shape"):
        run(small(strategy="disagreement"))
