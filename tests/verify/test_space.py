"""The request space: everything that is promised is drawn, can be made, printed, and written down."""

import io
from collections import Counter
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from PIL import Image

from tests.support.models import model_names
from vlmopt.small import requests_of, write_small_folder
from vlmopt.specs import load_spec
from vlmopt.verify.casefile import CaseFile, decode, encode, read_case, write_case
from vlmopt.verify.images import ARRAYS, Content, Damage, Form, ImageCase, Mode, image_cases
from vlmopt.verify.requests import Case, cases, load_tokenizer, texts

NAME = model_names()[0]
SPEC = load_spec(NAME)
REQUESTS = requests_of(SPEC)


def drawn(strategy, count=1500, seed_value=0):
    out = []

    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @seed(seed_value)
    @given(strategy)
    def draw(value):
        out.append(value)

    draw()
    return out


@given(image_cases(large=False))
@settings(max_examples=150, deadline=None)
def test_every_image_can_be_made_again_and_is_what_it_says(case):
    built, again = case.build(), case.build()
    if case.form == "pil":
        assert built.tobytes() == again.tobytes()
        assert built.size == (case.width, case.height)
    elif case.form in ARRAYS:
        array = getattr(built, "array", built)
        assert (getattr(again, "array", again) == array).all()
        assert case.width in array.shape
    else:
        assert built == again
        if case.damage == "none":
            with Image.open(io.BytesIO(built)) as image:
                assert image.size == (case.width, case.height)
                assert image.format == case.form
                assert (getattr(image, "n_frames", 1) > 1) <= (case.frames > 1)


def test_the_whole_space_of_images_is_drawn():
    images = drawn(image_cases())
    assert {image.mode for image in images} == set(get_args(Mode))
    assert {image.content for image in images} == set(get_args(Content))
    assert {image.form for image in images} == set(get_args(Form))
    assert {image.damage for image in images} == set(get_args(Damage))
    assert {image.orientation for image in images} == set(range(1, 9))
    assert max(image.frames for image in images) > 1
    sizes = {(image.width, image.height) for image in images}
    assert {(1, 1), (20000, 10), (10, 20000)} <= sizes
    assert any(width > 4096 for width, height in sizes if height > 300)
    assert sum(image.damage != "none" for image in images) < len(images) / 5


def test_the_whole_space_of_requests_is_drawn():
    found = drawn(cases(REQUESTS))
    requests = [request for case in found for request in case]
    counts = Counter(len(request.images) for request in requests)
    assert set(counts) == {0, 1, 2, 3, 4}
    assert {len(case) for case in found} == {1, 2, 3}
    assert {request.given for request in requests} == {"text", "ids", "odd ids"}
    assert {str(request.processor_kwargs) for request in requests} >= set(
        map(str, [*REQUESTS.processor_kwargs, {}])
    )
    assert any(len(set(request.images)) < len(request.images) for request in requests)
    assert any(len(request.between) != len(request.images) for request in requests)
    assert any(
        case[0].images == case[1].images and case[0].processor_kwargs != case[1].processor_kwargs
        for case in found
        if len(case) > 1
    )
    assert any(REQUESTS.image[:-1] in request.between for request in requests)
    assert any(request.after for request in requests)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_prompts_hold_their_texts_and_one_placeholder_an_image(data):
    (request, *_) = data.draw(cases(REQUESTS, large=False))
    text = request.text(REQUESTS)
    assert text.count(REQUESTS.image) >= len(request.between)
    assert "{images}" not in text
    assert all(piece in text for piece in request.between)


def test_odd_ids_say_the_same_text_in_other_tokens(tmp_path):
    for name in model_names():
        spec = load_spec(name)
        tokenizer = load_tokenizer(write_small_folder(spec, tmp_path))
        requests = requests_of(spec)
        case = drawn(cases(requests, large=False), 1)[0][0]
        plain, odd = (
            type(case)((), ("",), "some words", given).build(requests, tokenizer).prompt
            for given in ("ids", "odd ids")
        )
        assert len(odd) > len(plain)
        assert tokenizer.decode(odd[:-1]) == tokenizer.decode(plain)


@given(cases(REQUESTS))
@settings(max_examples=100, deadline=None)
def test_cases_are_read_back_from_plain_data(tmp_path_factory, case):
    folder = tmp_path_factory.mktemp("case")
    file = CaseFile(NAME, "1.2.3", "processor", "processor", 0, encode(case), ["a", "b"], None)
    write_case(folder, file, [])
    read = read_case(folder)
    assert decode(Case, read.case, folder) == case
    assert read.breaches == ["a", "b"]


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_images_of_a_case_can_be_looked_at(tmp_path, mode):
    image = ImageCase(9, 5, mode)
    write_case(tmp_path, CaseFile(NAME, "1", "processor", "processor", 0, [], []), [("request-1", image)])
    (path,) = tmp_path.glob("request-1.*")
    with Image.open(path) as shown:
        assert shown.size == (9, 5)


def test_texts_hold_pieces_of_the_placeholder():
    found = set(drawn(texts(REQUESTS), 400))
    assert {"", REQUESTS.image[:-1], REQUESTS.image[1:], "日本語"} <= found
