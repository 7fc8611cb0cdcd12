"""The packer on stock's own processors: what it trusts, what it refuses, what its items become."""

import copy
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from tests.support.models import engine_params, load_model, own_names
from vlmopt.specs import load_spec

pytestmark = pytest.mark.engine
torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

from vllm.config import ModelConfig  # noqa: E402
from vllm.multimodal import MULTIMODAL_REGISTRY  # noqa: E402
from vllm.multimodal.inputs import MultiModalKwargsItems, nested_tensors_equal  # noqa: E402
from vllm.multimodal.utils import group_and_batch_mm_items  # noqa: E402
from vllm.plugins import load_general_plugins  # noqa: E402

from vlmopt.engine.length import prompt_length  # noqa: E402
from vlmopt.runtime import packing  # noqa: E402
from vlmopt.runtime.calibrate import Mismatch, sample_pictures  # noqa: E402
from vlmopt.runtime.geometry import Unsupported  # noqa: E402
from vlmopt.runtime.packer import Packer  # noqa: E402
from vlmopt.runtime.restore import restore_items  # noqa: E402

RECIPES = ("device_normalize", "uint8_transfer", "device_resize", "implicit_mask", "fast_image_ops")


@pytest.fixture(scope="module")
def processors(model_folders):
    made = {}

    def processor_of(name):
        if name not in made:
            load_general_plugins()
            folder = str(model_folders[name])
            config = ModelConfig(
                model=folder,
                tokenizer=folder,
                dtype="bfloat16",
                max_model_len=prompt_length(model_folders[name]),
                trust_remote_code=load_model(name).trust_remote_code,
                mm_processor_cache_gb=0,
            )
            made[name] = MULTIMODAL_REGISTRY.create_processor(config)
        return made[name]

    return processor_of


def marked(processor, recipes=RECIPES, **more):
    """A processor of a class that carries the recipes' marks, as a fork's does."""
    marks = {f"vlmopt_{recipe}": True for recipe in recipes} | more
    twin = copy.copy(processor)
    twin.__class__ = type("Marked", (type(processor),), marks)
    return twin


def images_of(name):
    return load_spec(name).facts()["images"]


def items_of(processor, output):
    fields = packing.with_packed_fields(output, processor._get_mm_fields_config(output, {}))
    return MultiModalKwargsItems.from_hf_inputs(output, fields)["image"]


def stock_output(processor, pictures):
    items = processor.info.parse_mm_data({"image": pictures}, validate=False)
    return processor._apply_hf_processor_main(items, {})


def batches(items):
    return list(group_and_batch_mm_items(restore_items(items), device="cpu"))


def same(ours, stock):
    return len(ours) == len(stock) and all(
        count == other
        and set(batch) == set(theirs)
        and all(nested_tensors_equal(batch[key], theirs[key], check_dtype=True) for key in batch)
        for (count, batch), (other, theirs) in zip(ours, stock, strict=True)
    )


@pytest.mark.parametrize("name", engine_params("packed"))
def test_packed_and_unpacked_items_batch_as_stock_batches_them(name, processors):
    processor = processors(name)
    packer = Packer(marked(processor), images_of(name))
    pictures = [*sample_pictures()[1:], Image.new("RGB", (64, 64), (127, 127, 127))]
    stock = items_of(processor, stock_output(processor, pictures))
    packed = items_of(processor, packer.pack(pictures))
    assert same(batches(packed), batches(stock))
    assert same(batches([packed[0], *stock[1:-1], packed[-1]]), batches(stock)), "some packed, some not"


@pytest.mark.parametrize("name", engine_params("packed"))
@pytest.mark.parametrize("left_out", [recipe for recipe in RECIPES if "fast" in recipe or "mask" in recipe])
def test_each_recipe_can_be_left_out(name, left_out, processors):
    processor = processors(name)
    packer = Packer(marked(processor, [r for r in RECIPES if r != left_out]), images_of(name))
    pictures = sample_pictures()[1:]
    stock = items_of(processor, stock_output(processor, pictures))
    assert same(batches(items_of(processor, packer.pack(pictures))), batches(stock))


@pytest.mark.parametrize("name", engine_params("packed"))
def test_a_picture_is_sent_raw_or_cut_by_its_bytes(name, processors):
    packer = Packer(marked(processors(name)), images_of(name))
    for size in ((300, 200), (3000, 2500), (4000, 4000)):
        output = packer.pack([Image.new("RGB", size)])
        payload = next(value for key, value in output.items() if key.startswith("vlmopt_pixels"))[0]
        layout = packer._geometry.layout(*size)
        sent = payload.nbytes - len(packer._head)
        assert sent in (layout.raw_bytes, layout.window_bytes)
        assert sent <= 1.25 * min(layout.raw_bytes, layout.window_bytes)


WRONG = {
    "tile": 96,
    "thumbnail": False,
    "max_tiles": 9,
    "crop_width": 300,
    "repeat": 1,
    "min_pixels": 10,
    "max_pixels": 4_000_000,
}


def wrong_specs():
    """Specs that differ from the truth in one fact, each with the model it is told of."""
    for name in own_names():
        images = images_of(name)
        yield name, "resample", {**images, "resample": "bilinear"}
        other = "pillow" if images["library"] == "torchvision" else "torchvision"
        yield name, "library", {**images, "library": other}
        outputs = dict(list(images["outputs"].items())[:1])
        if len(outputs) < len(images["outputs"]):
            yield name, "outputs", {**images, "outputs": outputs}
        yield name, "no-such-output", {**images, "outputs": {**images["outputs"], "nothing": "mask"}}
        for parameter, value in WRONG.items():
            if parameter in images["parameters"]:
                yield name, parameter, {**images, "parameters": {**images["parameters"], parameter: value}}


@pytest.mark.parametrize(
    ("name", "images"),
    [pytest.param(name, images, id=f"{name}-{fact}") for name, fact, images in wrong_specs()],
)
def test_a_wrong_spec_is_found_before_the_first_request(name, images, processors):
    with pytest.raises(Mismatch):
        Packer(marked(processors(name)), images)


def test_a_parameter_that_stock_does_not_have_is_left_to_stock(processors):
    name = own_names()[0]
    images = images_of(name)
    parameters = {key: {"attribute": "image_processor.no_such"} for key in images["parameters"]}
    with pytest.raises(Unsupported, match="no_such"):
        Packer(marked(processors(name)), {**images, "parameters": parameters})


@pytest.mark.parametrize("name", engine_params("packed"))
def test_without_its_recipes_stock_does_the_work(name, processors):
    with pytest.raises(Unsupported, match="not applied"):
        Packer(marked(processors(name), recipes=()), images_of(name))


def call(processor, data, hf_kwargs=None, **marks):
    processor = marked(processor, **marks)
    items = processor.info.parse_mm_data(data, validate=False)
    return packing.pack_images(processor, items, hf_kwargs or {})


@pytest.mark.parametrize("name", engine_params("packed"))
def test_what_is_not_understood_is_left_to_stock(name, processors):
    processor = processors(name)
    spec = load_spec(name)
    marks = {"vlmopt_architecture": spec.architecture, "vlmopt_images": images_of(name)}
    picture = sample_pictures()[1]
    assert call(processor, {"image": [picture]}, **marks) is not None
    assert call(processor, {"image": [picture]}) is None, "no marks of a spec"
    assert call(processor, {"image": [picture]}, {"do_resize": False}, **marks) is None, "own arguments"
    assert call(processor, {}, **marks) is None, "no images"
    assert call(processor, {"image": [torch.zeros(3, 8, 9, dtype=torch.uint8)]}, **marks) is None, "a tensor"
    other = {**marks, "vlmopt_architecture": "Other"}
    assert call(processor, {"image": [picture]}, **other) is None, "another architecture"
    file = io.BytesIO()
    picture.save(file, "PNG")
    broken = Image.open(io.BytesIO(file.getvalue()[:-200]))
    assert call(processor, {"image": [broken]}, **marks) is None, "a broken picture"


def test_the_first_images_may_come_from_many_threads_at_once(processors, monkeypatch):
    name = own_names()[0]
    made = []

    class Counted(Packer):
        def __init__(self, *args):
            made.append(self)
            super().__init__(*args)

    monkeypatch.setattr("vlmopt.runtime.packer.Packer", Counted)
    processor = marked(
        processors(name), vlmopt_architecture=load_spec(name).architecture, vlmopt_images=images_of(name)
    )
    items = processor.info.parse_mm_data({"image": [sample_pictures()[1]]}, validate=False)
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda _: packing.pack_images(processor, items, {}), range(8)))
    assert len(made) == 1
    expected = batches(items_of(processor, outputs[0]))
    assert all(same(batches(items_of(processor, output)), expected) for output in outputs[1:])


def test_a_failure_while_checking_leaves_the_processor_to_stock(processors, monkeypatch):
    name = own_names()[0]
    spec = load_spec(name)
    marks = {"vlmopt_architecture": spec.architecture, "vlmopt_images": images_of(name)}

    def fail(*args, **kwargs):
        raise RuntimeError("no memory")

    monkeypatch.setattr("vlmopt.runtime.packer.calibrate", fail)
    assert call(processors(name), {"image": [sample_pictures()[1]]}, **marks) is None


def test_the_approximate_resize_differs_and_is_asked_for(processors):
    name = next(name for name in own_names() if load_spec(name).images.resizes == "chained")
    processor = processors(name)
    picture = sample_pictures()[1]
    stock = batches(items_of(processor, stock_output(processor, [picture])))
    packer = Packer(marked(processor, vlmopt_single_pass_resize=True), images_of(name))
    ours = batches(items_of(processor, packer.pack([picture])))
    assert not same(ours, stock)
    assert {key: value.shape for key, value in ours[0][1].items() if hasattr(value, "shape")} == {
        key: value.shape for key, value in stock[0][1].items() if hasattr(value, "shape")
    }
