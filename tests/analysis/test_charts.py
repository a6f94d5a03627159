"""Charts as text: what they say, whatever they are given."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from fedactive.analysis.charts import bar_chart, heat_map, png
from fedactive.analysis.line_chart import Line, line_chart
from fedactive.analysis.svg import short_names, ticks


def test_ticks_are_round_and_cover_the_range():
    assert ticks(8, 45) == [0, 10, 20, 30, 40, 50]
    assert ticks(0.61, 0.68) == pytest.approx([0.6, 0.62, 0.64, 0.66, 0.68])
    assert ticks(5, 5) == pytest.approx([4.7, 4.8, 4.9, 5.0, 5.1, 5.2, 5.3])
    assert len(f"{ticks(9.470752089, 9.470752089)[1]:g}") <= 4


def test_names_get_half_of_a_chart_at_most_and_all_are_in_it():
    names = [f"{k} {'temperature=0.1, diversity=kcentre, ' * 3}" for k in range(30)]
    values = [[50.0, 60.0 + k] for k in range(30)]
    lines = [Line(name, [5.0, 10.0], y, y, y) for name, y in zip(names, values, strict=True)]
    chart = line_chart(lines, "title", "x", "y", size=(480, 330))
    grid = float(re.search(r'class="grid" d="M46,[\d.]+H([\d.]+)"', chart)[1])
    assert grid >= 230
    assert min(float(y) for y in re.findall(r'y="([-\d.]+)" text-anchor="start" class="name"', chart)) > 0
    assert all(name in chart for name in names)  # whole, for whoever points at a line
    bars = bar_chart({name: [1.0] for name in names[:2]}, ["training"], "title", "s")
    assert (
        min(float(x) for x in re.findall(r'<rect x="([-\d.]+)" y="\d+" width="[\d.]+" height="20"', bars))
        <= 420
    )


def test_charts_escape_names_and_stand_odd_numbers():
    one_point = Line("<b>", [5.0], [50.0], [50.0], [50.0])
    assert "&lt;b&gt;  50.0" in line_chart([one_point], "title", "x", "y")
    assert "<b>" not in line_chart([one_point], "title", "x", "y")
    assert "nan" not in bar_chart({"idle": [0.0, 0.0]}, ["a", "b"], "title", "s")


def x_ticks(points):
    chart = line_chart([Line("logo", points, points, points, points)], "t", "x", "y").split("narrow")[0]
    return re.findall(r'y="406.0" text-anchor="middle" class="">(.*?)<', chart)


def test_ticks_below_a_chart_are_round():
    assert x_ticks([4.87, 9.74, 14.6]) == ["6", "8", "10", "12", "14"]
    assert x_ticks([5.0 * r for r in range(1, 17)]) == ["20", "40", "60", "80"]


def test_where_labels_grow_by_leaps_the_axis_is_logarithmic():
    chart = line_chart([Line("logo", [50, 100, 200, 2000], *[[1.0] * 4] * 3)], "t", "x", "y").split("narrow")[
        0
    ]
    places = {
        n: float(x)
        for x, n in re.findall(r'x="([\d.]+)" y="406.0" text-anchor="middle" class="">(\d+)<', chart)
    }
    assert list(places) == ["50", "100", "200", "2000"]
    assert places["100"] - places["50"] == pytest.approx(places["200"] - places["100"], abs=0.2)


def test_every_chart_is_drawn_for_a_narrow_page_too():
    names = [f"strategy {k} with a long name and (options=many)" for k in range(12)]
    lines = [Line(name, [5.0, 10.0], *[[50.0, 60.0 + k]] * 3) for k, name in enumerate(names)]
    bars = bar_chart({name: [1.0, 2.0] for name in names}, ["training", "evaluation"], "title", "s")
    for chart in (line_chart(lines, "title", "x", "y"), bars):
        wide, narrow = re.findall(r'viewBox="0 0 (\d+) [\d.]+"', chart)
        assert (int(wide), int(narrow)) == (840, 400)
        assert sum(f">{name}" in chart for name in names) or "…" in chart


def test_classes_of_a_heat_map_can_be_told_apart():
    long = "actinic keratoses and intraepithelial carcinoma"
    assert short_names(["melanoma", "melanocytic nevi", long]) == [
        "melanoma",
        "melanocytic nevi",
        "actinic keratoses…",
    ]
    assert short_names([long, f"{long} in situ"]) == ["0 actinic keratos…", "1 actinic keratos…"]
    chart = heat_map(np.ones((2, 2), int), ["melanoma", "melanocytic nevi"], "Labels", 1)
    assert ">melanoma<" in chart
    assert ">melanocytic nevi<" in chart
    assert "rotate" not in heat_map(np.ones((2, 2), int), ["cat", "dog"], "Labels", 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_png_keeps_every_pixel(channels):
    image = np.random.default_rng(1).integers(256, size=(channels, 5, 7), dtype=np.uint8)
    content = base64.b64decode(png(image).partition(",")[2])
    shown = np.asarray(Image.open(io.BytesIO(content))).reshape(5, 7, channels)
    assert (shown == image.transpose(1, 2, 0)).all()
