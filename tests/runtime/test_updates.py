"""Updates that are kept for pictures of one size, against those that stock works out for each request."""

import copy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.support.models import load_model, model_names
from vlmopt.specs import load_spec

pytestmark = pytest.mark.engine
torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

from vllm.config import ModelConfig  # noqa: E402
from vllm.multimodal import MULTIMODAL_REGISTRY  # noqa: E402
from vllm.multimodal.inputs import MultiModalKwargsItems  # noqa: E402
from vllm.plugins import load_general_plugins  # noqa: E402

from vlmopt.engine.length import prompt_length  # noqa: E402
from vlmopt.runtime import packing, updates  # noqa: E402
from vlmopt.runtime.packer import Packer  # noqa: E402
from vlmopt.runtime.probing import stock_behaviour  # noqa: E402

MARKS = {
    f"vlmopt_{recipe}": True
    for recipe in ("device_normalize", "uint8_transfer", "device_resize", "implicit_mask", "fast_image_ops")
}


class Packed:
    """A processor with its packer: what a fork works with."""

    def __init__(self, name, folder):
        load_general_plugins()
        config = ModelConfig(
            model=folder,
            tokenizer=folder,
            dtype="bfloat16",
            max_model_len=prompt_length(Path(folder)),
            trust_remote_code=load_model(name).trust_remote_code,
            mm_processor_cache_gb=0,
        )
        stock = MULTIMODAL_REGISTRY.create_processor(config)
        self.processor = copy.copy(stock)
        self.processor.__class__ = type("Marked", (type(stock),), MARKS)
        self.packer = Packer(self.processor, load_spec(name).facts()["images"])

    def request(self, pictures):
        """The parsed items and the packed output of a request."""
        items = self.processor.info.parse_mm_data({"image": pictures}, validate=False)
        output = self.packer.pack(items["image"].get_all())
        config = self.processor._get_mm_fields_config(output, {})
        return items, MultiModalKwargsItems.from_hf_inputs(output, packing.with_packed_fields(output, config))

    def twin(self, **methods):
        """A processor that nothing was kept for yet."""
        processor = copy.copy(self.processor)
        processor.__dict__.pop(updates._STATE, None)
        processor.__class__ = type("Twin", (type(self.processor),), methods)
        return processor


@pytest.fixture(scope="module")
def packed(model_folders):
    made = {}

    def packed_of(name):
        if name not in made:
            made[name] = Packed(name, str(model_folders[name]))
        return made[name]

    return packed_of


def as_data(found):
    return {
        modality: [
            [
                (
                    update.modality,
                    update.item_idx,
                    update.mode,
                    update.target,
                    update.content.full,
                    update.content.is_embed and update.content.is_embed(update.content.full).tolist(),
                )
                for update in item
            ]
            for item in items
        ]
        for modality, items in found.items()
    }


MODELS = [
    pytest.param(name, marks=[pytest.mark.long] if at > 1 else []) for at, name in enumerate(model_names())
]
"""Two of them in every run: making a packer takes seconds."""


@settings(max_examples=10)
@given(data=st.data())
@pytest.mark.parametrize("name", MODELS)
def test_kept_updates_are_stocks(name, data, packed):
    model = packed(name)
    side = st.integers(16, 900)
    sizes = data.draw(st.lists(st.tuples(side, side), min_size=1, max_size=3))
    colours = data.draw(st.lists(st.integers(0, 255), min_size=3, max_size=3))
    pictures = [Image.new("RGB", size, tuple(colours)) for size in sizes]
    items, kwargs = model.request(pictures)
    stock = as_data(model.processor._get_mm_prompt_updates(items, {}, kwargs))
    first = updates.kept_updates(model.processor, items, {}, kwargs)
    again = updates.kept_updates(model.processor, items, {}, kwargs)
    assert first is not None
    assert again is not None
    assert as_data(first) == stock
    assert as_data(again) == stock


def test_stock_is_asked_once_for_pictures_of_a_size(packed):
    model, asked = packed(model_names()[0]), []

    def count(self, *args):
        asked.append(args)
        return super(type(self), self)._get_prompt_updates(*args)

    processor = model.twin(_get_prompt_updates=count)
    for sizes in ([(64, 48)], [(64, 48)], [(48, 64)], [(64, 48)], [(64, 48), (48, 64)], [(48, 64), (64, 48)]):
        items, kwargs = model.request([Image.new("RGB", size) for size in sizes])
        assert updates.kept_updates(processor, items, {}, kwargs) is not None
    assert len(asked) == 4


LOOKS = {
    "pixels": lambda picture: picture.getpixel((0, 0)),
    "mode": lambda picture: picture.mode,
    "whether it has pixels": lambda picture: hasattr(picture, "im"),
    "the array": lambda picture: np.asarray(picture).size,
    "what is written beside it": lambda picture: getattr(picture, "info", {}),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_updates_that_depend_on_more_than_the_size_are_never_kept(look, packed):
    name = model_names()[0]
    model = packed(name)

    def looking(self, mm_items, *args):
        for picture in mm_items["image"].get_all():
            look(picture)
        return super(type(self), self)._get_prompt_updates(mm_items, *args)

    processor = model.twin(_get_prompt_updates=looking)
    items, kwargs = model.request([Image.new("RGB", (64, 48))])
    assert updates.kept_updates(processor, items, {}, kwargs) is None
    assert updates.kept_updates(processor, items, {}, kwargs) is None


def test_updates_that_depend_on_the_payload_are_never_kept(packed):
    model = packed(model_names()[0])

    def looking(self, mm_items, hf_kwargs, mm_kwargs):
        for key in [key for key in mm_kwargs["image"][0] if key.startswith("vlmopt_pixels")] or ["pixels"]:
            mm_kwargs["image"][0][key].data.sum()
        return super(type(self), self)._get_prompt_updates(mm_items, hf_kwargs, mm_kwargs)

    processor = model.twin(_get_prompt_updates=looking)
    items, kwargs = model.request([Image.new("RGB", (64, 48))])
    assert updates.kept_updates(processor, items, {}, kwargs) is None


def test_what_is_not_packed_images_alone_is_left_to_stock(packed):
    model = packed(model_names()[0])
    items, kwargs = model.request([Image.new("RGB", (64, 48))])
    assert updates.kept_updates(model.processor, items, {"size": {}}, kwargs) is None, "own arguments"
    with stock_behaviour():
        assert updates.kept_updates(model.processor, items, {}, kwargs) is None, "stock is being asked"
    plain = MultiModalKwargsItems({"image": [{"pixel_values": None}]})
    assert updates.kept_updates(model.processor, items, {}, plain) is None, "not packed"
    two = type(items)({"image": items["image"], "video": items["image"]})
    assert updates.kept_updates(model.processor, two, {}, kwargs) is None, "not images alone"


def test_what_is_kept_has_an_end_and_is_not_the_callers_to_change(packed, monkeypatch):
    monkeypatch.setattr(updates, "_MOST", 3)
    model = packed(model_names()[0])
    processor = model.twin()
    for width in range(40, 50):
        items, kwargs = model.request([Image.new("RGB", (width, 48))])
        found = updates.kept_updates(processor, items, {}, kwargs)
        expected = as_data(found)
        found["image"].clear()
        assert as_data(updates.kept_updates(processor, items, {}, kwargs)) == expected
    assert len(processor.__dict__[updates._STATE]._by_sizes) == 3
