"""Boxes, and the three ways to write one."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.argus.boxes import (
    BinFormat,
    Box,
    BoxError,
    CodebookFormat,
    FloatFormat,
    load_format,
)

ROUNDING = 1e-9
fractions = st.floats(0, 1, allow_nan=False)


@st.composite
def boxes(draw):
    (x1, x2), (y1, y2) = (sorted((draw(fractions), draw(fractions))) for _ in "xy")
    return Box(x1, y1, x2, y2)


def typical(count, seed):
    """Boxes as scenes have them: 0.1 to 0.5 of the picture, anywhere."""
    random = np.random.default_rng(seed)
    size = random.uniform(0.1, 0.5, (count, 2))
    at = random.uniform(0, 1 - size)
    return [Box(*a, *(a + s)) for a, s in zip(at.tolist(), size, strict=True)]


LEARNT = CodebookFormat.learn(typical(3000, 0), size=1024, seed=0)
FORMATS = {
    "float": FloatFormat(),
    "float-1": FloatFormat(1),
    "bin": BinFormat(),
    "bin-2": BinFormat(2),
    "bin-97": BinFormat(97),
    "codebook": LEARNT,
    "codebook-small": CodebookFormat.learn(typical(50, 1), size=20, grid=3),
}
each_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)


@each_format
@given(box=boxes())
def test_a_box_survives_within_the_stated_error(form, box):
    back = form.decode(form.encode(box))
    assert max(abs(a - b) for a, b in zip(box.corners, back.corners, strict=True)) <= form.error + ROUNDING
    assert back.x1 <= back.x2
    assert back.y1 <= back.y2


@each_format
@given(box=boxes())
def test_only_the_formats_own_tokens_are_written(form, box):
    body = form.encode(box).removeprefix("<box>").removesuffix("</box>")
    for token in form.tokens:
        body = body.replace(token, "")
    assert set(body) <= set("0123456789.,")
    assert bool(form.tokens) == (body == "")


@pytest.mark.parametrize("form", [FloatFormat(2), BinFormat(), BinFormat(7)])
@given(data=st.data())
def test_coordinates_keep_their_order(form, data):
    low, high = sorted((data.draw(fractions), data.draw(fractions)))
    nearer, further = (form.decode(form.encode(Box(x, 0, 1, 1))) for x in (low, high))
    assert nearer.x1 <= further.x1


@given(box=boxes())
def test_bins_are_those_of_the_formula(box):
    numbers = [math.floor(value * 999) for value in box.corners]
    assert BinFormat().encode(box) == "<box>" + "".join(f"<bin_{n}>" for n in numbers) + "</box>"


@each_format
@given(left=boxes(), right=boxes(), words=st.sampled_from(["a red circle", "word 'sun'", "7"]))
def test_a_text_gives_its_boxes_in_order_with_their_labels(form, left, right, words):
    text = f"{words} {form.encode(left)}; the other: {form.encode(right)}."
    found = form.find(text)
    assert [one.label for one in found] == [words, "the other:"]
    assert [one.box for one in found] == form.parse(text)
    assert found[0].box == form.decode(form.encode(left))
    assert form.parse("nothing here") == []


@each_format
@given(box=boxes())
def test_white_space_that_a_detokenizer_puts_between_tokens_does_not_matter(form, box):
    text = form.encode(box)
    assert form.decode(text.replace("<", " <").replace(">", "> ").replace(",", " , ")) == form.decode(text)


@each_format
def test_a_format_is_made_again_from_its_settings(form):
    again = load_format(json.loads(json.dumps(form.settings())))
    for box in typical(20, 2):
        assert again.encode(box) == form.encode(box)
    assert again.settings() == form.settings()


BAD_NUMBERS = [
    ((0.5, 0, 0.4, 1), "left of"),
    ((0, 0.5, 1, 0.4), "above"),
    ((math.nan, 0, 1, 1), "x1 is nan"),
    ((0, 0, math.inf, 1), "x2 is inf"),
    ((0, -0.01, 1, 1), "y1 is -0.01, outside the picture"),
    ((0, 0, 1, 1.001), "y2 is 1.001, outside the picture"),
]


@pytest.mark.parametrize(("numbers", "message"), BAD_NUMBERS)
def test_bad_boxes_are_refused(numbers, message):
    with pytest.raises(BoxError, match=message):
        Box(*numbers)


BAD_TEXTS = [
    (FloatFormat(), "<box>0.5,0.1,0.4,0.9</box>", "left of"),
    (FloatFormat(), "<box>0.1,0.1,0.4</box>", "four decimal numbers"),
    (FloatFormat(), "<box>0.1,0.1,0.4,1.5</box>", "outside the picture"),
    (FloatFormat(), "<box>0.1,0.1,nan,0.5</box>", "four decimal numbers"),
    (FloatFormat(), "<box>0.1,0.1,-0.4,0.5</box>", "four decimal numbers"),
    (BinFormat(), "<box><bin_9><bin_1><bin_8><bin_2></box>", "left of"),
    (BinFormat(), "<box><bin_9><bin_1><bin_10></box>", "four tokens <bin_0> to <bin_999>"),
    (BinFormat(), "<box><bin_0><bin_0><bin_0><bin_1000></box>", "four tokens"),
    (BinFormat(), "<box><bin_0><bin_0> red <bin_0><bin_9></box>", "four tokens"),
    (BinFormat(), "<box></box>", "not ''"),
    (LEARNT, "<box><code_255><code_0></box>", "left of"),
    (LEARNT, "<box><code_0><code_1024></box>", "two tokens <code_0> to <code_1023>"),
    (LEARNT, "<box><code_0></box>", "two tokens"),
    (BinFormat(), "the <box><bin_1>", "not closed"),
    (BinFormat(), "<bin_1></box>", "no partner"),
    (BinFormat(), "<box><box><bin_1></box>", "no partner"),
]


@pytest.mark.parametrize(("form", "text", "message"), BAD_TEXTS)
def test_bad_texts_are_refused(form, text, message):
    with pytest.raises(BoxError, match=message):
        form.parse(text)


@pytest.mark.parametrize("text", ["", "a cat", "cat <box>0,0,1,1</box>", "<box>0,0,1,1</box> cat"])
def test_one_box_alone_is_what_decode_takes(text):
    with pytest.raises(BoxError, match="one float box was expected"):
        FloatFormat().decode(text)


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(BoxError, match=r"no box format is named 'polar'; there are float, bin, codebook"):
        load_format({"name": "polar"})
    with pytest.raises(BoxError, match="does not take"):
        load_format({"name": "bin", "digits": 3})
    for make in (lambda: BinFormat(1), lambda: FloatFormat(0), lambda: CodebookFormat([[0.5, 2]], 1)):
        with pytest.raises(BoxError):
            make()
    with pytest.raises(BoxError, match="no boxes"):
        CodebookFormat.learn([])
    with pytest.raises(BoxError, match="none left beside its 16 x 16 grid"):
        CodebookFormat.learn(typical(9, 0), size=256)


def test_a_learnt_codebook_is_better_than_its_bound_where_boxes_are():
    def off(form):
        pairs = [(box, form.decode(form.encode(box))) for box in typical(500, 9)]
        return np.mean([np.abs(np.subtract(a.corners, b.corners)).mean() for a, b in pairs])

    assert off(LEARNT) < 0.6 * off(CodebookFormat(LEARNT.codes[:256]))
    again = CodebookFormat.learn(typical(3000, 0), size=1024, seed=0)
    assert np.array_equal(again.codes, LEARNT.codes)


def test_iou_and_pixels():
    box = Box.from_pixels(10, 20, 30, 60, width=100, height=80)
    assert box == Box(0.1, 0.25, 0.3, 0.75)
    assert box.to_pixels(100, 80) == pytest.approx((10, 20, 30, 60))
    assert box.iou(box) == pytest.approx(1)
    assert box.iou(Box(0.2, 0.25, 0.4, 0.75)) == pytest.approx(1 / 3)
    assert box.iou(Box(0.5, 0, 1, 1)) == 0
    assert Box(0, 0, 0, 1).iou(Box(0, 0, 0, 1)) == 0
    with pytest.raises(BoxError, match="outside the picture"):
        Box.from_pixels(10, 20, 101, 60, width=100, height=80)
    with pytest.raises(BoxError, match="0 x 80 pixels"):
        Box.from_pixels(0, 0, 0, 0, width=0, height=80)
