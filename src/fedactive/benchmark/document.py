"""Fill the benchmark's document and the methods' cards from results.

    <!-- suite: yardstick -->          the verdict of a suite, published numbers beside it
    <!-- methods: docs/methods -->     the list of methods, with what they set
    <!-- options: kafal -->            what a method sets, and the options of its parts
    <!-- needs: kafal -->              the models that its query asks for, and what travels
    <!-- results: kafal -->            how it did in each suite

Each of these ends with `<!-- end -->`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd

from fedactive.analysis.document import fill_blocks
from fedactive.analysis.markdown import to_markdown
from fedactive.benchmark.points import read_points
from fedactive.benchmark.published import beside_published
from fedactive.benchmark.sections import as_markdown, sections_of
from fedactive.benchmark.suite import PUBLISHED, Entry, find_suite, shipped_suites
from fedactive.benchmark.verdict import Verdict
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.methods import method_class, settings_of
from fedactive.options import options_of
from fedactive.query import make_strategy
from fedactive.record.archive import Archive
from fedactive.registry import STRATEGIES

MODELS = {
    "global": "the global model, which every client has",
    "local": "the local-only model, trained on the client's own labels at each query",
    "finetuned": "the global model, fine-tuned on the client's own labels at each query",
    "local_last": "the client's weights after its last local training, kept by the client",
    "committee": "checkpoints of the global model and of `local_last`, kept by the client",
    "epochs": "the client's weights after each epoch of its last local training, kept by the client",
    "distilled": "a model distilled from the global one on the client's own labels at each query",
}

BEYOND = "Bold is a difference beyond the limit, within which 95% of differences between equals would lie."


class Filler:
    """Makes blocks from these runs; suites are judged once, however many blocks show them."""

    def __init__(self, archive: Archive) -> None:
        @cache
        def judge(name: str) -> Verdict:
            suite = find_suite(name)
            return Verdict(suite, read_points(suite, archive))

        self.judge = judge

    def fill(self, document: str) -> str:
        makers = {
            "suite": self.suite,
            "methods": self.methods,
            "options": self.options,
            "needs": self.needs,
            "results": self.results,
        }
        return fill_blocks(document, makers)

    def suite(self, words: list[str]) -> str:
        verdict = self.judge(the_word("suite", words))
        suite = verdict.suite
        settings = ", ".join(f"{key} {show(value)}" for key, value in suite.settings.items())
        head = f"{suite.question}\n\nSettings: {settings}.\n"
        for variant in suite.variants if len(suite.variants) > 1 else ():
            head += f"With {', '.join(f'{key} {show(value)}' for key, value in variant.items())}.\n"
        run = f"`fedactive benchmark run {suite.name}` makes them"
        text = f"{head}\nThere are no results of this suite yet: {run}.\n"
        if not verdict.points.empty:
            text = f"{head}\n{as_markdown(sections_of(verdict))}"
        beside = beside_published(verdict)
        if len(beside):
            text += f"\n#### Published numbers\n\n{to_markdown(beside)}"
            text += f"\n{BEYOND}\n" if "ours" in beside else ""
        return text

    def methods(self, words: list[str]) -> str:
        folder = the_word("methods", words)
        rows = []
        for name in published_methods():
            made, cls = Entry(name), method_class(name)
            sets = ", ".join(f"`{key}` {value}" for key, value in settings_of(made.method).items())
            rows.append(
                {
                    "method": f"[{name}]({folder}/{name}.md)",
                    "what it is": f"{cls.summary} ({cls.paper})",
                    "sets": sets,
                }
            )
        return to_markdown(pd.DataFrame(rows))

    def options(self, words: list[str]) -> str:
        name = the_word("method", words)
        rows = []
        for key, value in settings_of(name).items():
            registry = registry_of(key)
            rows.append({"option": f"`--{key.replace('_', '-')}`", "value": str(value), "what it is": ""})
            if registry is None:
                continue
            rows[-1]["what it is"] = registry[value].summary
            for item in options_of(registry[value]):
                flag = f"`--{key}-options {item.name}=`"
                rows.append(
                    {"option": flag, "value": str(item.default), "what it is": f"{item.help}: {item.allowed}"}
                )
        return to_markdown(pd.DataFrame(rows))

    def needs(self, words: list[str]) -> str:
        settings = settings_of(the_word("method", words))
        cls = STRATEGIES[settings["strategy"]]
        rows = []
        for selector in cls.selectors:
            strategy = make_strategy(settings["strategy"], selector)
            models = "; ".join(MODELS.get(model, model) for model in sorted(strategy.needs)) or "none"
            rows.append({"by": selector, "models asked": models})
        return to_markdown(pd.DataFrame(rows)) + f"\nBeside weights and counts {travels(cls)}.\n"

    def results(self, words: list[str]) -> str:
        name = the_word("method", words)
        method_class(name)
        rows, sentences = [], []
        for suite in shipped_suites():
            verdict = self.judge(suite)
            cost, areas, ranks = verdict.cost(), verdict.mean_areas, verdict.ranks.means
            for entry in verdict.suite.entries:
                label = entry.label
                if entry.method != name or label not in verdict.methods:
                    continue
                rows.append(
                    {
                        "suite": suite,
                        "method": label,
                        "mean rank": f"{ranks[label]:.2f} of {len(ranks)}" if verdict.ranked else "",
                        "mean accuracy": f"{areas[label]:.2f}" if label in areas else "",
                        "s/query": f"{cost[label]:.3g}" if label in cost else "",
                    }
                )
                sentences.append(f"- {suite}: {verdict.sentence(label)}")
        if not rows:
            return "There are no results of this method yet.\n"
        return to_markdown(pd.DataFrame(rows)) + "\n" + "\n".join(sentences) + "\n"


def the_word(what: str, words: list[str]) -> str:
    if len(words) != 1:
        raise ConfigurationError(what, " ".join(words), "one name")
    return words[0]


def published_methods() -> list[str]:
    """List the methods of the shipped suites, each once."""
    return list(dict.fromkeys(Entry.read(text).method for text in PUBLISHED))


def registry_of(setting: str) -> Any:
    """Return the registry from which this setting of Experiment is chosen; None if it is chosen otherwise."""
    item = next((item for item in options_of(Experiment) if item.name == setting), None)
    return item.choices if item is not None and hasattr(item.choices, "ours") else None


def travels(cls: Any) -> str:
    if cls.coordinated:
        return "clients send sums and counts of clusters, which the server adds up"
    if cls.numbers:
        told = "one number" if cls.numbers == 1 else f"{cls.numbers} numbers"
        when = "at each query" if cls.tells_each_round else "once in a run"
        return f"each client tells {told} {when}; the server gives back the mean over clients"
    return "nothing leaves a client for its query"


def show(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(show, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
