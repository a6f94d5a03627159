"""The paper's figures as pictures: from tables to a file (svg, pdf, png). figures.py decides what they show.

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023: Figure 2
(observation), 3 (matrices), 4 (bars), 5 (penalty), and of its appendix the clients' data, the learning curves
and the cost of a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedactive.analysis.curve_pictures import line_look
from fedactive.analysis.diversity import Counts
from fedactive.analysis.palette import MARKERS, TINTS, style_of
from fedactive.analysis.pictures import explain, figure_file, round_ticks
from fedactive.paper.settings import COMPARED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = "cividis"  # reads the same with any colour vision, and in grey

Imbalance = tuple[float, float]  # rho and alpha
Matrices = tuple[pd.DataFrame, pd.DataFrame]  # labels, and class-wise accuracy


def draw_observation(gaps: pd.DataFrame, path: Path) -> None:
    """Draw Figure 2, from `comparison.observation`: above zero the global model is the better selector."""
    with figure_file(path, (7, 4)) as figure:
        axes = figure.subplots()
        gaps = gaps.dropna(subset="gap")
        place = {rho: i for i, rho in enumerate(sorted(gaps["rho"].unique()))}
        for i, (alpha, part) in enumerate(gaps.groupby("alpha")):
            axes.plot(
                part["rho"].map(place),
                part["gap"],
                color=TINTS[i],
                marker=MARKERS[i],
                linewidth=2,
                label=f"α = {format_number(float(str(alpha)))}",
            )
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(ylim=(-1.05, 1.05), xlabel="global imbalance ρ", ylabel="winning rate, global less local")
        axes.set_xticks(list(place.values()), [format_number(rho) for rho in place])
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        style_axes(axes)


def draw_matrices(matrices: Mapping[Imbalance, Matrices], path: Path) -> None:
    """Draw Figure 3: how many labels of each class a client has, and how well its model knows the class."""
    with figure_file(path, (11, 4.6 * len(matrices))) as figure:
        grid = figure.subplots(len(matrices), 2, squeeze=False)
        for (left, right), (where, (counts, accuracy)) in zip(grid, matrices.items(), strict=True):
            # The last row holds all clients' labels: its colours would drown theirs.
            draw_heatmap(left, counts, "{:.0f}", high=counts.iloc[:-1].to_numpy().max())
            draw_heatmap(right, accuracy, "{:.0f}", high=100)
            left.set_title(f"{imbalance_title(where)}: labels")
            right.set_title("test accuracy (%), local-only models and global model")


def draw_clients(counts: Mapping[Imbalance, Counts], path: Path) -> None:
    """Draw how many samples each client has of each class: the larger the disc, the more."""
    rows = sorted({rho for rho, _ in counts})
    columns = sorted({alpha for _, alpha in counts})
    most = max(int(n.max()) for n in counts.values())
    with figure_file(path, (3.4 * len(columns), 3.2 * len(rows))) as figure:
        grid = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
        for (rho, alpha), n in counts.items():
            axes = grid[rows.index(rho), columns.index(alpha)]
            client, label = np.indices(n.shape)
            axes.scatter(label + 1, client + 1, s=330 * n / most, color=TINTS[0], linewidths=0)
            axes.set_title(imbalance_title((rho, alpha)))
            axes.set_xticks(range(1, n.shape[1] + 1))
            axes.set_yticks(range(1, n.shape[0] + 1))
            axes.grid(alpha=0.15)
            axes.set_axisbelow(True)
        grid[0, 0].invert_yaxis()  # the axis is shared by all
        for axes in grid[-1]:
            axes.set_xlabel("class")
        for axes in grid[:, 0]:
            axes.set_ylabel("client")
        figure.suptitle(f"samples by client and class; the largest disc is {most:,}", fontsize=11)


def draw_penalty(matrices: Mapping[str, pd.DataFrame], path: Path, winning: str) -> None:
    """Draw Figure 5, from `comparison.penalty_by`: how often the row beats the column; low columns are good.

    `winning` says below what that means. Columns name their number of settings where these differ: in few
    settings there are few defeats.
    """
    with figure_file(path, (7 * len(matrices), 6)) as figure:
        grid = figure.subplots(1, len(matrices), squeeze=False)[0]
        for axes, (name, matrix) in zip(grid, matrices.items(), strict=True):
            counts = matrix.attrs["counts"]
            uneven = len(set(counts.values())) > 1
            names = {column: f"{column} ({n})" for column, n in counts.items() if uneven}
            draw_heatmap(axes, matrix.rename(columns=names), "{:.1f}", max(matrix.to_numpy().max(), 1e-9))
            axes.axhline(len(matrix) - 1.5, color="white", linewidth=3)  # above the last row, the average
            title = f"in how many of {matrix.attrs['settings']} settings the row beats the column"
            axes.set_title(f"{name}: {title}" if name else title)
        explain(
            figure, f"{winning}\nRows win, columns lose. average: how often each of the others wins over it."
        )


def draw_bars(shares: pd.DataFrame, path: Path, winning: str) -> None:
    """Draw Figure 4, from `comparison.win_shares`: LoGo's wins, and its defeats in their winner's colour.

    n is the number of settings: in the title, or with each name where they differ.
    """
    from matplotlib.patches import Patch

    groups = list(shares.groupby(["category", "value"], sort=False))
    columns = 4
    rows = -(-len(groups) // columns)
    with figure_file(path, (14, 2.6 * rows)) as figure:
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        baselines = [name for name in COMPARED if name in set(shares["baseline"])]
        for axes, ((category, value), part) in zip(grid, groups, strict=False):
            part = part.set_index("baseline").reindex(baselines)
            places = np.arange(len(part))
            rivals = [style_of(name).colour for name in baselines]
            axes.bar(places - 0.2, part["win"], 0.4, color=style_of("logo").colour)
            axes.bar(places + 0.2, part["defeat"], 0.4, color=rivals, hatch="//", edgecolor="white")
            axes.set(xlim=(-0.6, len(part) - 0.4), ylim=(0, 100))
            n = part["settings"].fillna(0).astype(int)
            uneven = len(set(n)) > 1
            title = f"{category} {value}".strip()
            axes.set_title(title + ("" if uneven else f" (n = {n.iloc[0]})"), fontsize=9)
            names = [f"{name} ({n[name]})" if uneven else name for name in baselines]
            axes.set_xticks(places, names, rotation=35, ha="right", fontsize=8)
            style_axes(axes)
        for axes in grid[::columns]:
            axes.set_ylabel("share of AL rounds (%)")
        for axes in grid[len(groups) :]:
            axes.set_visible(False)
        win = Patch(color=style_of("logo").colour, label="LoGo wins")
        loss = Patch(facecolor="0.5", hatch="//", edgecolor="white", label="LoGo loses: the winner's colour")
        figure.legend(handles=[win, loss], frameon=False, loc="outside upper center", ncols=2)
        explain(figure, winning)


def draw_curves(curves: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw learning curves by title, as far as each has got; strategies are named `entropy G`, `entropy L`.

    Beside them are the differences from Random with the same seed: on a scale from 50 to 75% one cannot see
    the two points by which strategies differ. The number of seeds is shown once, or with each name where they
    differ, since means over different seeds do not compare.
    """
    with figure_file(path, (14, 5 * len(curves))) as figure:
        grid = figure.subplots(len(curves), 2, squeeze=False)
        for (left, right), (title, own) in zip(grid, curves.items(), strict=True):
            lines = {
                str(name): part.pivot_table(index="labelled", columns="seed", values="accuracy")
                for name, part in own.groupby("strategy")
            }
            base = "random" if "random" in lines else min(lines)
            means = {name: mean_over_seeds(line) for name, line in lines.items()}
            furthest = max(line.index[-1] for line in lines.values())
            seeds = {name: line.shape[1] for name, line in lines.items()}
            uneven = len(set(seeds.values())) > 1
            for name, mean in sorted(means.items(), key=lambda item: (-item[1].index[-1], -item[1].iloc[-1])):
                stopped = f" at {mean.index[-1]:g}%" if mean.index[-1] < furthest else ""
                known = f"{name} ({seeds[name]})" if uneven else name
                style = line_style(name) | {"label": f"{known}  {mean.iloc[-1]:.1f}{stopped}"}
                left.plot(mean, **style)
                right.plot(mean_over_seeds(lines[name] - lines[base]), **style)
            all_have = "" if uneven else f", {seeds[base]} seed{'s' * (seeds[base] > 1)}"
            left.set(title=title + all_have, ylabel="test accuracy (%)")
            right.set(title=f"the same less {base}, seed by seed", ylabel="points of test accuracy")
            right.legend(
                title="strategy (seeds)" if uneven else None,
                loc="center left",
                bbox_to_anchor=(1.02, 0.5),
                frameon=False,
                handlelength=3.2,
            )
            for axes in (left, right):
                axes.set_xlabel("labelled (% of all samples)")
                round_ticks(axes, "x", "y")
                style_axes(axes)
        explain(figure, "Lines: means over seeds. Dashed: the local-only model chooses (L).")


def mean_over_seeds(by_seed: pd.DataFrame) -> pd.Series:
    """Average as far as all seeds have got: where one ends the mean would jump."""
    return by_seed.dropna(axis="columns", how="all").dropna().mean(axis="columns")


def line_style(name: str) -> dict[str, Any]:
    """Return a strategy's colour and marker; a choice by the local-only model is dashed, LoGo is bold."""
    strategy, _, letter = name.partition(" ")
    look = style_of(f"{strategy} (local)" if letter == "L" else strategy)
    marked: dict[str, Any] = {"marker": look.marker, "markersize": 5, "linewidth": 1.6}
    if strategy == "logo":
        marked = {"linewidth": 3.5, "zorder": 3}
    return marked | line_look(look)


def draw_cost(table: pd.DataFrame, path: Path) -> None:
    """Draw seconds per query and client, from the cost table: ours filled, the paper's RTX 3090 hollow.

    The scale is logarithmic, since machines differ much; a strategy without runs has only the paper's number.
    """
    groups = list(table.groupby("labelled_percent", sort=False))
    kinds = {"ours": ("here", "o", TINTS[0], TINTS[0]), "paper": ("paper", "D", "none", "black")}
    with figure_file(path, (5 * len(groups), 5)) as figure:
        grid = figure.subplots(1, len(groups), sharey=True, sharex=True, squeeze=False)[0]
        for axes, (percent, part) in zip(grid, groups, strict=True):
            places = np.arange(len(part))
            axes.hlines(places, part["ours"], part["paper"], color="0.8", zorder=0)
            for column, (label, marker, face, edge) in kinds.items():
                seconds = part[column]
                axes.scatter(seconds, places, marker=marker, facecolors=face, edgecolors=edge, label=label)
                for x, y in zip(seconds, places, strict=True):
                    if np.isfinite(x):
                        above = {"textcoords": "offset points", "xytext": (0, 6), "ha": "center"}
                        axes.annotate(f"{x:.3g}", (x, y), fontsize=8, **above)
            names = part["strategy"] + [f" ({s})" if s != "both" else "" for s in part["selector"]]
            axes.set_yticks(places, names)
            title = f"{percent}% labelled".replace("->", " → ")
            axes.set(xscale="log", xlabel="seconds per query and client", title=title)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.margins(x=0.1)
            axes.spines[["top", "right"]].set_visible(False)
        grid[0].invert_yaxis()
        figure.legend(
            *grid[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=2
        )


def draw_agreement(accuracies: pd.DataFrame, path: Path) -> None:
    """Draw every accuracy: ours against the paper's, and the differences with their limits of agreement.

    A number has its dataset's colour and its table's marker. Beyond its limit it is filled.
    """
    known = accuracies[accuracies["seeds"] > 0]
    datasets, tables = list(known["dataset"].unique()), list(known["table"].unique())
    with figure_file(path, (11, 5)) as figure:
        left, right = figure.subplots(1, 2)
        ends = known[["paper", "ours"]].min().min() - 1, known[["paper", "ours"]].max().max() + 1
        left.plot(ends, ends, color="0.7", linewidth=1, zorder=0)
        for place, (dataset, own) in enumerate(known.groupby("dataset", sort=False)):
            colour, limit = TINTS[place], own["limit"].median()
            own = own.assign(place=place + np.linspace(-0.38, 0.38, len(own)))
            right.fill_between(
                [place - 0.42, place + 0.42], -limit, limit, color="0.9", linewidth=0, zorder=0
            )
            left.scatter([], [], color=colour, label=dataset)
            for name, part in own.groupby("table", sort=False):
                faces = ["none" if near else colour for near in part["near"]]
                style = {"marker": MARKERS[tables.index(name)], "edgecolors": colour, "s": 26}
                left.scatter(part["paper"], part["ours"], facecolors=faces, linewidths=1, **style)
                right.scatter(part["place"], part["difference"], facecolors=faces, linewidths=1, **style)
        for marker, name in zip(MARKERS, tables, strict=False):
            left.scatter([], [], marker=marker, facecolors="none", edgecolors="black", label=f"table {name}")
        right.axhline(0, color="0.7", linewidth=1, zorder=0)
        right.set_xticks(range(len(datasets)), datasets)
        left.set(xlabel="the paper's accuracy (%)", ylabel="ours (%)", xlim=ends, ylim=ends)
        right.set(ylabel="ours less the paper's (points)", title="grey: limits of agreement; filled: beyond")
        left.set_title(f"{len(known)} accuracies")
        left.legend(frameon=False, fontsize=8)
        for axes in (left, right):
            style_axes(axes)


# --- parts


def format_number(value: float) -> str:
    return f"{value:g}".replace("inf", "∞")


def imbalance_title(where: Imbalance) -> str:
    rho, alpha = where
    return f"ρ = {format_number(rho)}, α = {format_number(alpha)}"


def draw_heatmap(axes: Axes, table: pd.DataFrame, form: str, high: float) -> None:
    """Draw a table as coloured cells with its numbers in them."""
    values = table.to_numpy(float)
    axes.imshow(values, cmap=COLOURS, vmin=0, vmax=high, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        colour = "white" if value < 0.6 * high else "black"
        axes.text(j, i, form.format(value), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(table.columns)), table.columns, rotation=35)
    axes.set_yticks(range(len(table.index)), table.index)


def style_axes(axes: Axes) -> None:
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
