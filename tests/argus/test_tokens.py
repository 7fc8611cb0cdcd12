"""Tokenizers: every answer comes back as it was, boxes included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.argus import tokens
from vlmopt.argus.boxes import BinFormat, Box, CodebookFormat, FloatFormat
from vlmopt.argus.errors import InputError
from vlmopt.argus.scenes import Scenes, language
from vlmopt.argus.tokens import extend_tokenizer, scene_tokenizer

FORMS = [FloatFormat(), BinFormat(50), CodebookFormat.learn([Box(0, 0, 1, 1)], size=30, grid=5)]
PAIRS = [(form, scene_tokenizer(form)) for form in FORMS]
each_form = pytest.mark.parametrize(("form", "tokenizer"), PAIRS, ids=[form.name for form in FORMS])


@each_form
def test_answers_come_back_with_their_boxes(form, tokenizer):
    heldout = Scenes("heldout", count=20)
    for index in range(20):
        for example in heldout[index].examples:
            ids = tokenizer(example.text(form))["input_ids"]
            assert tokenizer.decode(ids, skip_special_tokens=True) == example.text(form)


@each_form
def test_a_box_token_is_one_token_and_words_are_whole(form, tokenizer):
    for token in ("<box>", "</box>", *form.tokens):
        assert len(tokenizer(token)["input_ids"]) == 1
    words = tokenizer.tokenize("Is the purple triangle left of the digit 7?")
    assert words == ["Is", "Ġthe", "Ġpurple", "Ġtriangle", "Ġleft", "Ġof", "Ġthe", "Ġdigit", "Ġ", "7", "?"]
    for kind in ("shape", "word"):
        for word in (*language.NAMES[kind], *language.COLORS, *language.SIZES, *language.BACKGROUNDS):
            assert len(tokenizer.tokenize(f" {word}")) == 1, word
    assert len(set(tokenizer.get_vocab().values())) == len(tokenizer)


@given(text=st.text())
def test_any_text_survives(text):
    tokenizer = PAIRS[0][1]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_it_is_always_the_same():
    tokens._learnt.cache_clear()
    assert scene_tokenizer(FORMS[1]).get_vocab() == PAIRS[1][1].get_vocab()


def test_a_tokenizer_without_turns_is_refused():
    tokenizer = scene_tokenizer(FloatFormat())
    tokenizer.get_vocab = lambda: {"a": 0}
    with pytest.raises(InputError, match=r"no <\|im_start\|> and no <\|im_end\|>"):
        extend_tokenizer(tokenizer, FloatFormat())
