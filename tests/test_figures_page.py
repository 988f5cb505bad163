"""What a figure, a table and a note put on a page, read back from their HTML."""

import base64
import csv
import io
import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt

from dpstudy.page.figure import MISSING, STYLES, Figure, Table, canvas, legend_below, not_yet_run

DATA = pd.DataFrame({"name": ["a & b", "c"], "value": [1 / 3, np.nan], "count": [1, 2]})


class Page(HTMLParser):
    """The elements of a piece of HTML, and the text inside each kind."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self._open = [], {}, []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("img", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        for tag in self._open:
            self.text[tag] = self.text.get(tag, "") + data

    def find(self, tag, **wanted):
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and all(attrs.get(key) == value for key, value in wanted.items())
        ]


def drawn(**changes):
    with canvas(1, 2, size=(4, 2)) as (fig, axes):
        for style, ax in zip(STYLES, axes, strict=False):
            ax.plot([0, 1], [0, 1], label="x", **style.line)
            ax.bar([0], [1], **style.area)
        axes[0].legend()
    fields = {"name": "two-lines", "caption": "A caption < 3.", "data": DATA, "alt": 'An "alt".'}
    return Figure(fig=fig, **{**fields, **changes})


def table(**changes):
    fields = {"name": "some-numbers", "caption": "Numbers.", "data": DATA}
    return Table(**{**fields, "formats": {"value": "{:.2f}"}, **changes})


def html(shown):
    return shown._repr_mimebundle_()["text/html"]


def decoded(uri):
    head, content = uri.split(",", 1)
    assert head.endswith(";base64")
    return base64.b64decode(content)


def test_a_figure_is_one_group_with_an_image_that_has_a_text_alternative():
    page = Page(html(drawn()))
    [group] = page.find("figure", role="group")
    [caption] = page.find("figcaption")
    [image, _] = page.find("img")
    assert group["aria-labelledby"] == caption["id"]
    assert image["alt"] == 'An "alt".'
    assert decoded(image["src"]).startswith(b"<?xml")
    assert "A caption < 3." in page.text["figcaption"]


@pytest.mark.parametrize("shown", [drawn, table])
def test_the_csv_has_the_numbers_in_full(shown):
    [link] = Page(html(shown())).find("a")
    assert link["download"] == f"{shown().name}.csv"
    assert link["aria-label"]
    rows = list(csv.DictReader(io.StringIO(decoded(link["href"]).decode())))
    assert [row["name"] for row in rows] == ["a & b", "c"]
    assert float(rows[0]["value"]) == 1 / 3
    assert rows[1]["value"] == ""
    assert [row["count"] for row in rows] == ["1", "2"]


@pytest.mark.parametrize("shown", [drawn, table])
def test_the_same_content_gives_the_same_bytes(shown):
    assert html(shown()) == html(shown())
    assert html(shown()) == shown()._repr_html_()


def test_another_drawing_gives_other_bytes():
    with canvas(size=(4, 2)) as (fig, [ax]):
        ax.plot([0, 1], [1, 0])
    other = Figure(name="other", caption="c", data=DATA, alt="a", fig=fig)
    assert other.svg != drawn().svg
    assert other.png.startswith(b"\x89PNG")


def test_a_figure_is_not_shown_a_second_time():
    figure, _ = plt.subplots()
    Figure(name="by-pyplot", caption="c", data=DATA, alt="a", fig=figure)
    drawn()
    assert plt.get_fignums() == []


def test_the_theme_stays_inside_a_canvas():
    with plt.rc_context({"grid.color": "red"}):
        drawn()._repr_html_()
        assert plt.rcParams["grid.color"] == "red"


def test_a_table_heads_its_columns_and_its_rows():
    page = Page(html(table()))
    assert len(page.find("th", scope="col")) == 3
    assert len(page.find("th", scope="row")) == 2
    [caption] = page.find("figcaption")
    [region] = page.find("div", role="region", tabindex="0")
    assert region["aria-labelledby"] == caption["id"]


def test_a_table_shows_formatted_values_and_dashes():
    assert table().shown() == [["a & b", "0.33", "1"], ["c", MISSING, "2"]]
    by_function = table(formats={"count": lambda value: f"no. {value}"})
    assert by_function.shown()[1] == ["c", MISSING, "no. 2"]
    assert "a & b | 0.33 | 1" in table()._repr_mimebundle_()["text/plain"]
    assert "<b>" not in html(table(data=pd.DataFrame({"x": ["<b>"]}), formats={}))


def test_columns_can_be_shown_as_one_and_stay_apart_in_the_csv():
    merged = table(merged={"both": "{value} of {count}"})
    assert merged.shown() == [["a & b", "0.33 of 1"], ["c", f"{MISSING} of 2"]]
    nothing = DATA.assign(count=[1, None])
    assert table(data=nothing, merged={"both": "{value} of {count}"}).shown()[1] == ["c", MISSING]
    assert merged.csv == table().csv
    assert merged._repr_mimebundle_()["text/plain"].startswith("name | both\n")
    heads = Page(html(merged)).find("th", scope="col")
    # Text, though of numbers: not aligned as numbers are.
    assert len(heads) == 2 and "style" not in heads[1]


@pytest.mark.parametrize("shown", [drawn, table])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Two Lines"}, "lower-case words"),
        ({"caption": " "}, "caption is needed"),
        ({"data": DATA.iloc[:0]}, "no data"),
    ],
)
def test_what_a_page_needs_is_asked_for(shown, change, message):
    with pytest.raises(ValueError, match=message):
        shown(**change)


def test_a_figure_needs_a_text_alternative_and_a_format_its_column():
    with pytest.raises(ValueError, match="text alternative is needed"):
        drawn(alt="")
    with pytest.raises(ValueError, match="no column 'other'"):
        table(formats={"other": "{}"})
    with pytest.raises(ValueError, match="no column 'other'"):
        table(merged={"both": "{value} of {other}"})


def test_what_has_not_run_says_so_with_its_command():
    note = not_yet_run("Figure 3", "dpstudy run tempered-sigmoids-figure-3")
    page = Page(html(note))
    assert page.find("div", role="note")
    assert "Not yet run" in page.text["p"]
    assert page.text["code"] == "dpstudy run tempered-sigmoids-figure-3"
    assert "Not yet run" in note._repr_mimebundle_()["text/plain"]


def luminance(color):
    """Relative luminance of sRGB, as of WCAG 2.1."""
    channels = np.array(colors.to_rgb(color))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_series_are_told_apart_without_colour():
    for mark in ("dash", "marker", "hatch"):
        assert len({getattr(style, mark) for style in STYLES}) == len(STYLES)


def test_neighbouring_series_differ_in_grey_and_stand_out_from_white():
    for style in STYLES:
        # An orange line needs its dash and marker: 3 : 1 holds for the darker ones only.
        assert 1.05 / (luminance(style.color) + 0.05) > 2
    for one, other in itertools.pairwise(STYLES):
        dark, light = sorted((luminance(one.color), luminance(other.color)))
        assert (light + 0.05) / (dark + 0.05) > 1.25


def in_columns(columns=3, **changes):
    with canvas(1, columns, size=(6, 2), sharey=True) as (fig, panels):
        for at, axes in enumerate(panels):
            axes.plot([0, 1], [at, 1])
            axes.set_title(f"panel {at}")
    fields = {"name": "panels", "caption": "c", "data": DATA, "alt": "three lines"}
    return Figure(**(fields | changes), fig=fig)


def sizes(page):
    drawn = [decoded(image["src"]).decode() for image in page.find("img")]
    boxes = [re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg).groups() for svg in drawn]
    return [[float(number) for number in box] for box in boxes], drawn


def test_columns_are_pieces_that_tile_the_figure():
    """The second and third have a picture of the axis beside them, for a narrow page."""
    page = Page(html(in_columns()))
    images = page.find("img")
    assert [image["alt"] for image in images if "hidden" not in image] == [
        *("three lines", "panel 1, continued", "panel 2, continued")
    ]
    boxes, drawn = sizes(page)
    own = [box for box, image in zip(boxes, images, strict=True) if "hidden" not in image]
    assert own[0][0] == 0 and sum(width for _, _, width, _ in own) == pytest.approx(
        6 * 72, abs=0.01
    )
    for (left, _, width, _), (right, *_) in itertools.pairwise(own):
        assert left + width == pytest.approx(right, abs=0.01)
    axes = [box for box, image in zip(boxes, images, strict=True) if "hidden" in image]
    assert len(axes) == 2 and axes[0] == axes[1] and axes[0][0] == 0 < axes[0][2] < own[0][2]
    curves = [len(re.findall(r"clip-path=.*stroke: #(?!e0e0e0)", svg)) for svg in drawn]
    assert curves == [1, 0, 1, 0, 1], "each its own panel, and the axis no line"
    assert html(in_columns()) == html(in_columns())


@pytest.mark.parametrize("columns", [1, 3])
def test_a_legend_stands_below_all_columns_entry_by_entry(columns):
    """A page breaks it where it is too narrow, and its text keeps its size."""
    figure = in_columns(columns)
    names = ["one", "another"]
    for name in names:
        figure.fig.axes[0].plot([0, 1], [1, 1], label=name)
    legend_below(figure.fig)
    page = Page(html(figure))
    shown = page.find("img")
    assert [image["alt"] for image in shown][-len(names) :] == names
    boxes, drawn = sizes(page)
    for (left, top, width, height), svg, name in zip(
        boxes[-len(names) :], drawn[-len(names) :], names, strict=True
    ):
        assert re.findall(r"<!-- (.*) -->", svg) == [name]
        x, baseline = map(float, re.search(r"translate\((\S+) (\S+)\) scale", svg).groups())
        assert left < x < left + width and top < baseline < top + height
    for _, top, _, height in boxes[: -len(names)]:
        assert top + height <= min(box[1] for box in boxes[-len(names) :])


def test_panels_without_numbers_stand_beside_each_other_on_a_phone():
    figure = in_columns()
    assert len(Page(html(figure)).find("div", **{"class": "numbered"})) == 3
    for axes in figure.fig.axes:
        axes.set_yticks([])
    assert not Page(html(figure)).find("div", **{"class": "numbered"})


@pytest.mark.parametrize("change", ["one column", "many columns", "a title over all"])
def test_one_picture_is_not_cut(change):
    figure = in_columns({"one column": 1, "many columns": 8}.get(change, 3))
    if change == "a title over all":
        figure.fig.suptitle("over all")
    assert len(Page(html(figure)).find("img")) == 1
