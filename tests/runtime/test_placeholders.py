"""Splicing against stock's own way through text, on real tokenizers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models import load_model, own_names

pytestmark = pytest.mark.engine
torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

from transformers import AutoTokenizer  # noqa: E402
from vllm.multimodal.processing import PromptReplacement, PromptUpdateDetails  # noqa: E402
from vllm.multimodal.processing.processor import BaseMultiModalProcessor  # noqa: E402

from vlmopt.runtime.placeholders import embed_mask, splice_placeholders  # noqa: E402


class TextProcessor(BaseMultiModalProcessor):
    """Stock's processor as far as the prompt's text goes."""

    def __init__(self, tokenizer):
        self.info = self
        self.get_tokenizer = lambda: tokenizer

    def _get_mm_fields_config(self, hf_inputs, hf_processor_mm_kwargs):
        return {}

    def _get_prompt_updates(self, mm_items, hf_processor_mm_kwargs, out_mm_kwargs):
        return []


@pytest.fixture(scope="module")
def tokenizers(model_folders):
    seen = {load_model(name).tokenizer: model_folders[name] for name in own_names()}
    return [AutoTokenizer.from_pretrained(folder) for folder in seen.values()]


def updates_of(processor, contents, target):
    ids = processor.get_tokenizer().encode(target, add_special_tokens=False)
    replacement = PromptReplacement(
        modality="image",
        target=ids,
        replacement=lambda index: PromptUpdateDetails(full=contents[index], is_embed=None),
    )
    return processor._bind_and_group_updates([replacement], {"image": len(contents)})


texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "\n", "  \n", "Image:", "<", "a <im", "日本語", "🙂", "'s", "<|im_end|>"]),
)


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_the_prompt_comes_out_as_stock_has_it(data, tokenizers):
    tokenizer = data.draw(st.sampled_from(tokenizers))
    special = tokenizer.all_special_ids + list(tokenizer.added_tokens_decoder)
    processor = TextProcessor(tokenizer)
    count = data.draw(st.integers(1, 3))
    edges = st.sampled_from(special)
    content = st.builds(
        lambda first, middle, times, last: [first, *[middle] * times, last],
        edges, edges, st.integers(0, 40), edges,
    )  # fmt: skip
    contents = [data.draw(content) for _ in range(count)]
    target = data.draw(st.sampled_from(["<picture>", "[img]"]))
    prompt = "".join(data.draw(texts) + target for _ in range(count)) + data.draw(texts)
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    updates = updates_of(processor, contents, target)
    spliced = splice_placeholders(processor, ids, updates)
    stock = processor._apply_prompt_updates_via_text(ids, updates)
    if spliced is not None:
        assert spliced == stock


@pytest.mark.parametrize("text", ["See ", "", "ünï 🙂 ", "line\n\n", "a <im"])
def test_plain_prompts_are_spliced(text, tokenizers):
    for tokenizer in tokenizers:
        edge, middle = list(tokenizer.added_tokens_decoder)[-2:]
        processor = TextProcessor(tokenizer)
        contents = [[edge, *[middle] * 300, edge], [edge, middle, edge]]
        ids = tokenizer.encode(f"{text}<picture>{text}<picture>\n?", add_special_tokens=False)
        updates = updates_of(processor, contents, "<picture>")
        spliced = splice_placeholders(processor, ids, updates)
        assert spliced is not None
        assert spliced == processor._apply_prompt_updates_via_text(ids, updates)


def test_a_prompt_that_holds_the_placeholders_own_tokens_is_left_to_stock(tokenizers):
    for tokenizer in tokenizers:
        edge, middle = list(tokenizer.added_tokens_decoder)[-2:]
        processor = TextProcessor(tokenizer)
        own = tokenizer.decode([edge])
        ids = tokenizer.encode(f"{own}<picture>", add_special_tokens=False)
        updates = updates_of(processor, [[edge, middle, edge]], "<picture>")
        assert splice_placeholders(processor, ids, updates) is None


def test_plain_tokens_in_a_placeholder_are_left_to_stock(tokenizers):
    for tokenizer in tokenizers:
        edge = next(iter(tokenizer.added_tokens_decoder))
        plain = tokenizer.encode("Frame", add_special_tokens=False)
        processor = TextProcessor(tokenizer)
        ids = tokenizer.encode("<picture>", add_special_tokens=False)
        updates = updates_of(processor, [[edge, *plain, edge]], "<picture>")
        assert splice_placeholders(processor, ids, updates) is None


@given(st.lists(st.integers(0, 3), max_size=50), st.integers(0, 4))
def test_the_mask_is_stocks(full, token_id):
    mask = PromptUpdateDetails.select_token_id(full, token_id).is_embed(full)
    ours = embed_mask(full, token_id)
    assert torch.equal(ours, mask if full else torch.empty(0, dtype=torch.bool))
