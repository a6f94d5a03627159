"""Every objective keeps the contract, the one that the document shows too; and it runs everywhere."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn import functional as F

from fedactive.errors import ConfigurationError, UserError
from fedactive.experiment import Experiment
from fedactive.federated.objective import Labelled, Objective, make_objective, register, require_sound
from fedactive.federated.objective_contract import check_objective
from fedactive.laboratory.run import run
from fedactive.registry import OBJECTIVES, load_plugin
from support.documents import plugin_from


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_keeps_the_contract(name):
    check_objective(make_objective(name))


def test_a_run_in_one_go_and_in_two(small, tmp_path):
    """The same numbers; other ones than those of balanced softmax, which is a part of it."""
    apart = small(objective="kcfu", strategy="random", rounds=1)
    run(apart)
    resumed, kcfu = (replace(apart, rounds=2, runs_dir=tmp_path / name) for name in ("runs", "whole"))
    whole = run(kcfu).metrics
    assert whole.equals(run(resumed).metrics)
    assert not whole.equals(run(replace(kcfu, objective="balanced_softmax")).metrics)


def test_the_documents_example(small, tmp_path):
    """Also with workers, which must load the file themselves."""
    load_plugin(plugin_from("OBJECTIVES.md", tmp_path))
    check_objective(make_objective("focal", "gamma=3"))
    experiment = small(objective="focal", objective_options="gamma=3", rounds=2)
    here = run(experiment)
    there = run(replace(experiment, workers=2, runs_dir=tmp_path / "workers"))
    assert here.metrics.equals(there.metrics)
    with pytest.raises(
        ConfigurationError, match=r"objective_options: gamma: -1.0 was given, allowed is a num"
    ):
        small(objective="focal", objective_options="gamma=-1")


def test_a_changed_objective_does_not_go_on_with_the_old_ones_run(small, tmp_path):
    file = plugin_from("OBJECTIVES.md", tmp_path)
    load_plugin(file)
    run(small(objective="focal", rounds=1))
    file.write_text(file.read_text() + "\n# another version\n")
    load_plugin(file)
    with pytest.raises(UserError, match="objective focal is not the same as when"):
        run(small(objective="focal", rounds=2))


def test_old_runs_keep_their_names_and_others_get_their_own():
    assert Experiment(objective="cross_entropy").name == Experiment().name
    names = {Experiment(objective=name).name for name in OBJECTIVES}
    names.add(Experiment(objective="distillation", objective_options="share=0.2").name)
    assert len(names) == len(OBJECTIVES) + 1
    assert Experiment(objective="distillation", objective_options="share=0.1").objective_options == ""


def test_an_algorithm_without_steps_refuses_other_objectives(small):
    with pytest.raises(
        ConfigurationError,
        match="objective: 'kcfu' was given, allowed is cross_entropy with algorithm ridge",
    ):
        small(algorithm="ridge", model="linear", objective="kcfu")


def test_an_objective_that_engines_cannot_compare_is_refused_before_any_work(small):
    @register
    class Loose(Objective):
        name, summary, paper = "loose", "", ""

        def losses(self, known):
            return F.cross_entropy(known.logits, known.labels, reduction="none")

    with pytest.raises(UserError, match=r"objective loose must be a class with @dataclass\(frozen=True\)"):
        small(objective="loose")


@dataclass(frozen=True)
class Broken(Objective):
    name, summary, paper = "broken", "", ""
    how: str = ""

    def losses(self, known: Labelled):
        z, n = known.logits, known.counts
        loss = F.cross_entropy(z, known.labels, reduction="none")
        match self.how:
            case "mean":
                return loss.mean()
            case "double":
                return loss.double()
            case "infinite":
                return F.cross_entropy(z + n.log(), known.labels, reduction="none")
            case "steep":
                return loss + (z - z).abs().sqrt().sum(1)
            case "together":
                return loss / loss.mean()
            case "blind":
                return torch.zeros_like(loss) + n.sum()
            case "elsewhere":
                return torch.ones_like(loss).requires_grad_() * n.sum()
            case "writes":
                return F.cross_entropy(z.mul_(2), known.labels, reduction="none")
            case "draws":
                return loss + 0 * torch.rand(len(loss))
            case "decides":
                return loss if known.fl_round > 0 else 2 * loss
            case _:
                return loss


BREAKS = {
    "mean": r"have the shape \(\), not \(8,\)",
    "double": "are torch.float64",
    "infinite": "are not finite: ",
    "steep": "not finite in their gradient",
    "together": "of a sample depend on the others",
    "blind": "never depend on the logits",
    "elsewhere": "never depend on the logits",
    "writes": "changes what it is given",
    "draws": "cannot be computed for many clients at once: .*random",
    "decides": "cannot be computed for many clients at once: .*data-dependent control flow",
}


@pytest.mark.parametrize("how", BREAKS)
def test_what_breaks_the_contract_is_told(how):
    check_objective(Broken())
    with torch.random.fork_rng(devices=[]), pytest.raises(AssertionError, match=BREAKS[how]):
        check_objective(Broken(how))


def test_mixed_images_need_a_loss():
    @dataclass(frozen=True)
    class Half(Broken):
        name = "half"
        needs_mixed = True

    for ask in (check_objective, require_sound, lambda half: half.mixed_losses(None)):
        with pytest.raises(UserError, match="objective half needs mixed images and has no mixed_losses"):
            ask(Half())


def test_what_is_no_frozen_dataclass_is_refused():
    class Loose(Broken):
        __hash__ = None

    with pytest.raises(UserError, match=r"must be a class with @dataclass\(frozen=True\)"):
        check_objective(Loose())


def test_losses_of_mixed_images_keep_the_contract_too():
    @dataclass(frozen=True)
    class Mean(Broken):
        needs_mixed = True

        def mixed_losses(self, known):
            return known.logits.mean()

    with pytest.raises(AssertionError, match=r"mixed_losses have the shape \(\)"):
        check_objective(Mean())
