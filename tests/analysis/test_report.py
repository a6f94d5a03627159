"""The page: its content, and how a real browser shows it."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedactive.analysis import report
from fedactive.analysis.charts import png
from fedactive.analysis.diversity import global_emd, local_emd
from fedactive.analysis.panels import comparisons, images
from fedactive.analysis.panels.accuracy import accuracy_table, band_note
from fedactive.analysis.panels.class_balance import emd_curves
from fedactive.analysis.panels.cost import cost_panel
from fedactive.analysis.report import write_report
from fedactive.analysis.significance import paired_tests, winning
from fedactive.errors import RunError
from fedactive.experiment import Experiment
from fedactive.laboratory.run import run_all
from fedactive.record.export import export
from support.curve_tables import against


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two strategies, two seeds, two settings, and a folder that cannot be used."""
    folder = tmp_path_factory.mktemp("report")
    common = {"dataset": "digits", "clients": 3, "rounds": 3, "fl_rounds": 3, "local_epochs": 1}
    more = {"augment": "none", "device": "cpu", "workers": 1, "runs_dir": folder / "runs"}
    cases = [(s, a, seed) for s in ("random", "entropy") for a in (0.1, 1.0) for seed in (1, 2)]
    run_all([Experiment(strategy=s, alpha=a, seed=seed, **common, **more) for s, a, seed in cases])
    (folder / "runs" / "holiday <photos>").mkdir()
    runs = write_report([folder / "runs"], folder / "pages" / "report.html")
    return runs, (folder / "pages" / "report.html").read_text()


def test_the_page_says_what_was_run(made):
    runs, page = made
    assert "8 runs on digits: 2 strategies, 2 settings, 2 seeds." in page
    assert runs.configuration["hardware"].iloc[0] in page
    for name in runs.configuration["run"]:
        assert f"<summary>{name}</summary>" in page
    assert "holiday &lt;photos&gt; is not a run folder: it has no experiment.toml." in page


def test_the_page_needs_nothing_else(made):
    page = made[1].replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|@import|<link|url\(", page)


def test_runs_that_diverged_are_told(made, tmp_path):
    runs, page = made
    assert "diverged" not in page
    row = runs.configuration.iloc[0]
    shutil.copytree(row["folder"], tmp_path / row["run"])
    file = tmp_path / row["run"] / "metrics.parquet"
    metrics = pd.read_parquet(file)
    metrics["loss"] = metrics["loss"].mask(metrics["al_round"] > 1)
    metrics.to_parquet(file)
    write_report([tmp_path / row["run"]], tmp_path / "report.html")
    told = (tmp_path / "report.html").read_text()
    assert f"accuracies are those of chance, in {row['run']}.</p>" in told
    assert "diverged = in AL round 2" in told


def test_charts_are_described(made):
    page = made[1]
    charts = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    # Per setting, wide and narrow: learning curves, four of EMD, time; then a heat map per strategy.
    assert len(charts) == 2 * (2 * (1 + 4 + 1) + 2)
    assert all(re.search(r'role="img".*?<title>.+?</title><desc>.+?</desc>', chart) for chart in charts)


def test_the_table_shows_mean_and_deviation(made):
    runs, page = made
    curves = runs.curves
    end = curves[
        (curves["strategy"] == "random") & (curves["al_round"] == 3) & (curves["setting"] == "alpha 0.1")
    ]
    mean, std = end["accuracy"].mean(), end["accuracy"].std()
    assert f'<span class="mean">{mean:.1f}</span><small> ± {std:.1f}</small>' in page


def test_best_and_second_go_by_what_is_shown():
    rows = [("a", 50.04, 60.0), ("b", 50.01, 70.0), ("c", 50.02, 65.0), ("d", 50.0, 65.04)]
    table = pd.DataFrame(
        [(name, 1, r, 5.0 * r, row[r - 1]) for name, *row in rows for r in (1, 2)],
        columns=["strategy", "seed", "al_round", "labelled", "accuracy"],
    )
    ranks = {name: [cell.kind for cell in cells[1:]] for name, cells in accuracy_table(table).rows}
    assert ranks == {"a": ["", ""], "b": ["", "best"], "c": ["", "second"], "d": ["", "second"]}


def test_a_half_is_ranked_as_it_is_shown():
    rows = [("a", 68.55), ("b", 68.5), ("c", 68.0)]
    table = pd.DataFrame(
        [(name, 1, 1, 5.0, accuracy) for name, accuracy in rows],
        columns=["strategy", "seed", "al_round", "labelled", "accuracy"],
    )
    cells = {name: cells[1] for name, cells in accuracy_table(table).rows}
    assert "68.5" in cells["a"].text
    assert {name: cell.kind for name, cell in cells.items()} == {"a": "best", "b": "best", "c": "second"}


def test_means_over_fewer_seeds_say_so():
    rows = [("a", 1, 2), ("a", 2, 1), ("b", 1, 2)]  # strategy, seed, AL rounds
    table = pd.DataFrame(
        [(name, seed, r, 0.5 * r, 50.0 + seed) for name, seed, last in rows for r in range(1, last + 1)],
        columns=["strategy", "seed", "al_round", "labelled", "accuracy"],
    )
    shown = {name: [str(cell.text) for cell in cells] for name, cells in accuracy_table(table).rows}
    few = "<small> (1)</small>"
    assert shown["a"][0] == "2"
    assert few not in shown["a"][1]
    assert few in shown["a"][2]
    assert few not in "".join(shown["b"])
    assert "Not all points have equally many seeds: see the table." in band_note(table)
    assert "Not all" not in band_note(table[table["al_round"] == 1].query("strategy == 'a'"))


def test_a_difference_that_is_the_same_for_all_seeds_has_no_p():
    tests = paired_tests(against([[1, 2], [3, 3]]))
    ((_, cells),) = comparisons.tests_panel(tests, {"a", "b"})["table"].rows
    assert [str(cell.text) for cell in cells] == ["0", "0", "1", "2", "+3.0", "–"]


def test_strategies_that_were_run_in_fewer_settings_are_told(made, tmp_path):
    runs, page = made
    assert "same number of settings" not in page
    kept = runs.configuration.query("label == 'random' or alpha == 1")
    write_report([Path(folder) for folder in kept["folder"]], tmp_path / "report.html")
    fewer = (tmp_path / "report.html").read_text()
    assert '<tr><th scope="row">settings</th><td>1</td><td>2</td></tr>' in fewer  # entropy, random
    assert "Not all strategies were run in the same number of settings" in fewer


def test_small_budgets_have_headings_that_differ():
    table = pd.DataFrame(
        [("a", 1, r, 0.4 * r, 50.0) for r in (1, 2, 3)],
        columns=["strategy", "seed", "al_round", "labelled", "accuracy"],
    )
    assert accuracy_table(table).columns == ["strategy", "seeds", "0.4%", "0.8%", "1.2%"]


def test_costs_are_those_of_the_rounds_that_all_runs_have():
    rows = [("a-1", "a", 1), ("a-1", "a", 2), ("b-1", "b", 1), ("b-1", "b", 2), ("b-1", "b", 3)]
    curves = pd.DataFrame(rows, columns=["run", "strategy", "al_round"]).assign(labels=[10, 20, 10, 20, 30])
    seconds = pd.DataFrame(
        {"training": [1.0, 1.0, 2.0, 2.0, 50.0]}, index=curves.set_index(["run", "al_round"]).index
    )
    panel = cost_panel(curves, seconds)
    assert panel["what"] == "AL rounds 1 to 2, which all runs went through themselves,"
    shown = {name: [str(cell.text) for cell in cells] for name, cells in panel["table"].rows}
    assert shown == {"a": ["20", "2", "2"], "b": ["20", "4", "4"]}
    alone = curves["strategy"] == "a"
    assert cost_panel(curves[alone], seconds)["what"] == "one run"
    taken_over = cost_panel(curves, seconds.drop(index=("a-1", 1)))
    assert taken_over["what"] == "AL round 2, which all runs went through themselves,"
    assert [[str(cell.text) for cell in cells] for _, cells in taken_over["table"].rows] == [
        ["20", "1", "1"],
        ["20", "2", "2"],
    ]


def selections(row):
    return pd.read_parquet(Path(row["folder"]) / "selections.parquet")


def test_class_balance_is_that_of_the_definitions(made):
    runs, _ = made
    row = runs.configuration.iloc[3]
    chosen = selections(row)
    charts = {
        name: curves[curves["run"] == row["run"]].set_index("al_round")["accuracy"]
        for name, curves in emd_curves(runs).items()
    }
    for al_round in (1, 2, 3):
        known, query = chosen["al_round"] <= al_round, chosen["al_round"] == al_round
        for which, emd in (("local", local_emd), ("global", global_emd)):
            for name, part in ((which, chosen[known]), (f"{which} query", chosen[query])):
                labels = [np.bincount(own, minlength=10) for _, own in part.groupby("client")["label"]]
                assert charts[name][al_round] == pytest.approx(emd(labels))


def test_thumbnails_are_the_queried_images(made, digits):
    runs, page = made
    table = selections(runs.configuration.iloc[0])
    query = table[(table["al_round"] == 2) & (table["client"] == 0)].iloc[0]
    image = digits.train_inputs[int(query["sample"])].numpy()
    assert f'<img src="{png(image)}" alt="{digits.classes[int(query["label"])]}"' in page
    assert "Images are shown in the first setting of digits only." in page
    assert page.count("<img ") <= 2 * 100


def test_captions_tell_classes_apart(made, digits, tmp_path, monkeypatch):
    """Where few letters have room: by a number, and whole where one points at them."""
    names = ["melanoma", "melanocytic nevi", *map(str, range(2, 10))]
    monkeypatch.setattr(images, "load", lambda *_: replace(digits, classes=names))
    write_report([Path(made[0].configuration["folder"].iloc[0])], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    captions = set(re.findall(r'<figure title="([^"]+)">.*?<figcaption>(.*?)</figcaption>', page))
    assert {("melanoma", "0 mel…"), ("melanocytic nevi", "1 mel…")} <= captions


def test_images_that_are_not_there_are_told(made, tmp_path):
    runs, _ = made
    folder = shutil.copytree(runs.configuration["folder"].iloc[0], tmp_path / "run")
    toml = folder / "experiment.toml"
    toml.write_text(toml.read_text().replace('dataset = "digits"', 'dataset = "cifar10"'))
    write_report([folder], tmp_path / "report.html", data_dir=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Images are not shown: cifar10: " in page
    assert "fedactive data get cifar10" in page
    assert "One seed each" in page
    assert "there is nobody to compare it with" in page


def test_images_of_another_dataset_are_not_shown(made, tmp_path):
    folder = shutil.copytree(made[0].configuration["folder"].iloc[0], tmp_path / "run")
    chosen = pd.read_parquet(folder / "selections.parquet")
    chosen.assign(sample=10**6).to_parquet(folder / "selections.parquet", index=False)
    write_report([folder], tmp_path / "report.html")
    note = "Images are not shown: digits here is not the one that was used."
    assert note in (tmp_path / "report.html").read_text()


def as_of_sites(folder, measured):
    """The run as the field records it: samples and labels hidden, accuracy perhaps unknown."""
    chosen, metrics = (pd.read_parquet(folder / f"{name}.parquet") for name in ("selections", "metrics"))
    chosen.assign(sample=-1, label=-1).to_parquet(folder / "selections.parquet", index=False)
    if not measured:
        metrics.assign(accuracy=np.nan, loss=np.nan).to_parquet(folder / "metrics.parquet", index=False)


@pytest.mark.parametrize("measured", [True, False])
def test_what_only_sites_know_is_not_shown(made, tmp_path, measured):
    configuration = made[0].configuration.query("alpha == 1 and seed == 1")
    folders = [shutil.copytree(row.folder, tmp_path / row.run) for row in configuration.itertuples()]
    as_of_sites(folders[0], measured)
    write_report(folders, tmp_path / "one.html")
    page = (tmp_path / "one.html").read_text()
    shown, hidden = configuration["label"].iloc[1], configuration["label"].iloc[0]
    assert f"Images queried by {shown}" in page
    assert f"Images queried by {hidden}" not in page
    assert page.count('<span class="mean">unknown</span>') == (0 if measured else 3)

    as_of_sites(folders[1], measured)
    assert not write_report(folders, tmp_path / "both.html").skipped
    page = (tmp_path / "both.html").read_text()
    assert "Images are not shown: only the sites know which were queried." in page
    assert ("The accuracy is unknown: no site had test images." in page) == (not measured)
    assert "Time and cost" in page


def test_exported_results_can_be_reported(made, tmp_path):
    runs, _ = made
    export([Path(folder) for folder in runs.configuration["folder"]], tmp_path / "results")
    assert not write_report([tmp_path / "results"], tmp_path / "report.html").skipped
    page = (tmp_path / "report.html").read_text()
    assert "8 runs on digits: 2 strategies, 2 settings, 2 seeds." in page
    assert "Images are not shown: exported results do not say which were queried." in page
    assert page.count("<svg") == made[1].count("<svg")
    assert f"file = {tmp_path / 'results' / 'runs.parquet'}" in page
    assert "= None" not in page


def test_nothing_is_written_without_runs(tmp_path):
    with pytest.raises(RunError):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("output", "why"),
    [("file/page.html", "Not a directory"), ("file/in/page.html", "Not a directory"), ("", "it is a folder")],
)
def test_a_page_that_cannot_be_written_is_one_sentence(made, tmp_path, output, why):
    (tmp_path / "file").touch()
    folder = Path(made[0].configuration["folder"].iloc[0])
    with pytest.raises(RunError, match=re.escape(f"cannot write {tmp_path / output}: {why}")):
        write_report([folder], tmp_path / output)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_winning_means_and_its_colours_stand_beside_the_matrix(made):
    matrix = made[1].split('<h2 id="overall">')[1].split("</section>")[0]
    assert winning() in matrix
    assert "Rows win, columns lose." in matrix
    assert "most often" in matrix


def test_a_summary_across_settings_comes_first(made):
    page = made[1]
    assert page.index('<h2 id="summary">') < page.index('<h2 id="overall">') < page.index('id="setting-1"')
    assert "Over 2 seeds (1, 2) in 2 settings, " in page
    assert "with fewer than four seeds hardly any difference can be significant" in page
    settings = page.split('<table id="settings-table">')[1].split("</table>")[0]
    assert '<a href="#setting-2">2</a>' in settings
    assert '<td data-value="0.1">0.1</td>' in settings


# ------------------------------------------------------------------------------------------ in a real browser


@pytest.fixture
def address(made, tmp_path):
    (tmp_path / "report.html").write_text(made[1])
    return (tmp_path / "report.html").as_uri()


def test_the_page_works_without_errors_and_without_network(address, browser):
    browser.open(address)
    seen = browser.run(
        """return {
          charts: document.querySelectorAll("svg").length,
          fetched: performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:")),
          broken: [...document.images].filter(i => i.complete && !i.naturalWidth).length,
          landmarks: ["header", "nav", "main", "footer"].filter(n => document.querySelector(n)).length,
          unlabelled: [...document.querySelectorAll("section, [role=region]")].filter(
            e => !e.ariaLabel && !document.getElementById(e.getAttribute("aria-labelledby"))).length,
          twice: document.querySelectorAll("[id]").length - new Set([...document.querySelectorAll("[id]")].map(e => e.id)).size,
        };"""
    )
    assert seen == {"charts": 28, "fetched": [], "broken": 0, "landmarks": 4, "unlabelled": 0, "twice": 0}
    assert browser.console() == []


def test_tables_sort_by_keyboard_and_say_so(address, browser):
    browser.open(address)

    def state():
        return browser.run(
            """const table = document.querySelector("th[aria-sort]").closest("table");
            const rows = [...table.tBodies[0].rows], header = document.activeElement.closest("th");
            return {order: header.ariaSort, names: rows.map(r => r.cells[0].textContent),
                    values: rows.map(r => parseFloat(r.lastElementChild.dataset.value)),
                    column: header.cellIndex, last: table.tHead.rows[0].cells.length - 1,
                    sorted: table.querySelectorAll("[aria-sort=ascending], [aria-sort=descending]").length};"""
        )

    browser.run("""document.querySelector("th[aria-sort] button").focus();""")
    browser.press("Enter")
    names = state()
    browser.press("Space")
    names_back = state()
    assert (names["order"], names["names"]) == ("ascending", ["entropy (global)", "random"])
    assert (names_back["order"], names_back["names"]) == ("descending", ["random", "entropy (global)"])

    browser.press(*["Tab"] * names["last"])
    browser.press("Enter")
    down = state()
    browser.press("Space")
    up = state()
    assert down["column"] == down["last"]
    assert (down["order"], up["order"]) == ("descending", "ascending")
    assert down["values"] == sorted(down["values"], reverse=True)
    assert up["values"] == sorted(up["values"])
    assert up["sorted"] == 1
    assert browser.console() == []


def test_names_at_the_ends_of_lines_are_whole(made, tmp_path, browser):
    """A short name has the least room to spare."""
    shortest = made[0].configuration.query("label == 'random' and alpha == 1")
    write_report([Path(folder) for folder in shortest["folder"]], tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri(), 1280)
    over = browser.run(
        """return [...document.querySelectorAll(".wide svg.lines .name")].map(
          t => t.getBBox().x + t.getBBox().width - t.closest("svg").viewBox.baseVal.width);"""
    )
    assert len(over) == 5  # accuracy, and four of EMD
    assert max(over) <= 0


def test_long_names_of_rows_leave_room_for_the_numbers(made, tmp_path, browser):
    """They stay in place when the numbers are scrolled."""
    for row in made[0].configuration.query("alpha == 1").to_dict("records"):
        shutil.copytree(row["folder"], tmp_path / "runs" / row["run"])
        file = tmp_path / "runs" / row["run"] / "experiment.toml"
        options = f'strategy_options = "{",".join(f"option_{i}=value" for i in range(20))}"'
        file.write_text(re.sub("strategy_options = .*", options, file.read_text()))
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    for width in (390, 1200):
        browser.open((tmp_path / "report.html").as_uri(), width)
        shares = browser.run(
            """return [...document.querySelectorAll(
              "main > section > .scroll > table tbody, details.setting > .scroll > table tbody")].map(body =>
              body.querySelector("th")?.offsetWidth / body.closest(".scroll").clientWidth).filter(share => share);"""
        )
        assert len(shares) == 6  # summary, penalty matrix, accuracy, all metrics, significance, time
        assert max(shares) < 0.65


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_never_scrolls_sideways(address, browser, width, dark):
    browser.open(address, width, dark=dark)
    browser.run("""document.querySelectorAll("details").forEach(d => d.open = true);""")
    seen = browser.run(
        """const shown = [...document.querySelectorAll("svg")].map(s => s.getBoundingClientRect()).filter(r => r.width);
        return {width: innerWidth, content: document.documentElement.scrollWidth,
                charts: shown.length, clipped: shown.filter(r => r.right > innerWidth || r.left < 0).length};"""
    )
    assert seen["width"] == width
    assert seen["content"] <= width
    assert (seen["charts"], seen["clipped"]) == (2 * (1 + 4 + 1 + 2), 0)
    assert browser.console() == []


def test_dark_is_dark_and_labels_do_not_overlap(address, browser):
    script = """const y = [...document.querySelector("svg.lines").querySelectorAll(".name")].map(t => +t.getAttribute("y"));
      return {paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
              gap: Math.min(...y.slice(1).map((v, i) => Math.abs(v - y[i])))};"""
    browser.open(address)
    light = browser.run(script)
    browser.open(address, dark=True)
    dark = browser.run(script)
    assert light["paper"] == "rgb(255, 255, 255)"
    brightness = [sum(map(int, re.findall(r"\d+", dark[what]))) for what in ("paper", "ink")]
    assert brightness[0] < 120 < brightness[1]
    assert light["gap"] >= 15


def test_everything_can_be_saved(address, browser):
    browser.open(address)
    saved = browser.run(
        """const named = [...document.querySelectorAll(".save button")].map(b => b.getAttribute("aria-label"));
        const find = label => document.querySelector(`[aria-label="${label}"] table`);
        const accuracy = find("Accuracy by share of labelled samples");
        const svg = document.querySelector(".wide svg.lines");
        return {named: named.length, unnamed: named.filter(n => !n).length, csv: csv(accuracy),
                latex: latex(accuracy, "Digits & 5%"), svg: picture(svg), tables: document.querySelectorAll("main table:not(.images)").length,
                pictures: document.querySelectorAll("main .scroll .wide, main svg.heat").length};"""
    )
    assert saved["named"] == 2 * saved["tables"] + saved["pictures"]
    assert saved["unnamed"] == 0
    head, first = saved["csv"].splitlines()[:2]
    assert head.startswith("strategy,seeds,")
    assert re.search(r",(\d+)%,\1% ±,", head)
    assert re.fullmatch(r"(random|entropy \(global\)),2(,[\d.]+){6}", first)
    assert r"\caption{Digits \& 5\%}" in saved["latex"]
    assert re.search(r"& \\textbf\{[\d.]+ \$\\pm\$ [\d.]+\} \\\\\n", saved["latex"])
    colours = set(re.findall(r'stroke="(rgb[^"]+)"', saved["svg"]))
    assert "rgb(0, 114, 178)" in colours  # of entropy, without the page's style
    assert "var(" not in saved["svg"]


def test_the_filter_leaves_what_was_looked_for(address, browser):
    browser.open(address)
    seen = browser.run(
        """const filter = document.getElementById("filter");
        filter.value = "alpha 0.1";
        filter.dispatchEvent(new Event("input"));
        const visible = s => [...document.querySelectorAll(s)].filter(e => !e.hidden).length;
        return {rows: visible("#settings-table tbody tr"), settings: visible("[data-setting]"),
                runs: visible("details.box[data-words]"), said: document.getElementById("shown").textContent};"""
    )
    assert seen == {"rows": 1, "settings": 1, "runs": 4, "said": "1 of 2 settings"}


def test_many_settings_are_folded_until_one_goes_there(made, browser, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "FEW_SETTINGS", 1)
    write_report([Path(folder) for folder in made[0].configuration["folder"]], tmp_path / "many.html")
    browser.open((tmp_path / "many.html").as_uri())
    folded = """return [...document.querySelectorAll("details.setting")].map(d => d.open);"""
    assert browser.run(folded) == [False, False, False]
    browser.run("""document.querySelector('a[href="#setting-2"]').click();""")
    browser.wait("document.getElementById('setting-2').closest('details').open")
    assert browser.run(folded) == [False, True, False]
