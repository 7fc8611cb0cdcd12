"""What the code of a model states: classes, batch fields and prompt targets, in every shape vLLM uses."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.errors import SourceError, UsageError
from vlmopt.infer import Draft, Surveyor, infer_spec
from vlmopt.infer.draft import _slug
from vlmopt.specs import read_spec

from .small_tree import MODEL, PROCESSOR, indented, small_tree


def draft(files: dict[str, str], rows: dict[str, tuple[str, str]] | None = None) -> Draft:
    return infer_spec(small_tree(files, rows), next(iter(rows)) if rows else "Arch")


def with_fields(lines: list[str], extra: str = "") -> Draft:
    head, _, _ = PROCESSOR.partition("    def _get_mm_fields_config")
    config = "    def _get_mm_fields_config(self, hf_inputs, kwargs):\n" + indented(lines)
    return draft({"tiny.py": f"{head}{config}\n{extra}\n{MODEL}"})


def with_updates(lines: list[str], extra: str = "") -> Draft:
    head, _, _ = PROCESSOR.partition("    def _get_prompt_updates")
    updates = "    def _get_prompt_updates(self, mm_items, kwargs, out):\n" + indented(lines)
    return draft({"tiny.py": f"{head}{updates}\n{extra}\n{MODEL}"})


def test_the_plain_case() -> None:
    found = draft({"tiny.py": PROCESSOR + MODEL})
    assert (found.module, found.class_name) == ("vllm/model_executor/models/tiny.py", "Model")
    assert (found.processor_module, found.processor_class) == (found.module, "Processor")
    assert found.placeholder == "token"
    assert dict(found.outputs) == {"pixel_values": "pixels"}
    assert found.hf_processor is None


def test_an_imported_alias_is_followed_to_its_file() -> None:
    model = (
        "from .base import InfoBase, Processor as TinyProcessor\n"
        "@MULTIMODAL_REGISTRY.register_processor(TinyProcessor[TinyInfo], info=InfoBase)\nclass Model: ...\n"
    )
    found = draft({"base.py": PROCESSOR, "tiny.py": model})
    assert found.processor_module == "vllm/model_executor/models/base.py"
    assert found.processor_class == "Processor"
    assert dict(found.outputs) == {"pixel_values": "pixels"}


def test_a_registration_is_inherited_and_so_are_methods() -> None:
    base = PROCESSOR + MODEL
    model = "from . import base\nfrom .base import Model as BaseModel\nclass Model(BaseModel): ...\n"
    found = draft({"base.py": base, "tiny.py": model})
    assert found.module == "vllm/model_executor/models/tiny.py"
    assert found.processor_module == "vllm/model_executor/models/base.py"


def test_a_builder_gives_rivals_the_likeliest_first() -> None:
    builder = """\
class PaintProcessor(Processor): ...
class ModelProcessor(Processor): ...
def build(info, dummy_inputs):
    if isinstance(info, PaintInfo):
        return PaintProcessor(info, dummy_inputs)
    return ModelProcessor(info, dummy_inputs)
def build_info(ctx):
    return InfoBase(ctx)
@MULTIMODAL_REGISTRY.register_processor(build, info=build_info, dummy_inputs=Dummy)
class Model: ...
"""
    found = draft({"tiny.py": PROCESSOR + builder})
    assert found.processor_class == "ModelProcessor"
    assert found.processor_rivals == ("PaintProcessor",)
    assert "fill in: this or PaintProcessor" in found.yaml()
    assert any("PaintProcessor" in gap for gap in found.gaps())


FACTORY = """\
def factory(n):
    def make(x):
        return dict(tiles=MultiModalFieldConfig.batched("image"))
    return make
"""
METHOD = """\
    def _fields(self, x):
        return dict(tiles=MultiModalFieldConfig.batched("image"))
"""
CONSTANT = '_FIELDS = {"tiles": MultiModalFieldConfig.batched("image")}\n'


@pytest.mark.parametrize(
    ("lines", "extra"),
    [
        (['return {"tiles": MultiModalFieldConfig.batched("image")}'], ""),
        (["x = {}", 'x["tiles"] = MultiModalFieldConfig.batched(modality="image")', "return x"], ""),
        (['tiles = MultiModalFieldConfig.batched("image")', "return dict(tiles=tiles)"], ""),
        (["return self._fields(hf_inputs)"], METHOD),
        (["return factory(2)(hf_inputs)"], FACTORY),
        (["return _FIELDS"], CONSTANT),
    ],
)
def test_fields_in_every_shape(lines: list[str], extra: str) -> None:
    found = with_fields(lines, extra)
    assert [(field.name, field.kind, field.modality) for field in found.fields] == [
        ("tiles", "batched", "image")
    ]
    assert "also in the batch: tiles" in found.yaml()
    assert "images.outputs: no field looks like pixels" in found.gaps()


FIELD = st.sampled_from(
    [
        "pixel_values",
        "pixel_values_flat",
        "pixel_attention_mask",
        "image_grid_thw",
        "num_patches",
        "image_embeds",
    ]
)
MODALITY = st.sampled_from(["image", "video", "audio"])


@given(st.dictionaries(FIELD, MODALITY, min_size=1))
def test_only_the_fields_of_images_become_outputs(fields: dict[str, str]) -> None:
    calls = [f"{name}=MultiModalFieldConfig.batched({kind!r})," for name, kind in fields.items()]
    found = with_fields(["return dict(", *calls, ")"])
    assert [(field.name, field.modality) for field in found.fields] == list(fields.items())
    roles = {
        "pixel_values": "pixels",
        "pixel_values_flat": "pixels",
        "pixel_attention_mask": "mask",
        "image_grid_thw": "grid-thw",
        "num_patches": "tile-count",
    }
    expected = {name: roles[name] for name, kind in fields.items() if kind == "image" and name in roles}
    assert {name: role.value for name, role in found.outputs.items()} == expected


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ('"<image>"', "text"),
        ('cached_encode(tokenizer, "<image>", add_special_tokens=False)', "text"),
        ("hf_processor.image_token", "text"),
        ("cached_encode(tokenizer, hf_processor.image_token)", "token"),
        ("[image_token_id]", "token"),
        ("[placeholder[modality]]", "token"),
        ("found", "text"),
        ("ids(1)", "token"),
        ("[start_id, image_id, end_id]", "token"),
        ("PromptIndexTargets.start()", None),
        ("[]", None),
        ("somewhere(else_)", None),
    ],
)
def test_targets_in_every_shape(target: str, kind: str | None) -> None:
    lines = [
        'found = f"<image>{1}"',
        "def ids(i):",
        "    return [image_id]",
        'return [PromptReplacement(modality="audio", target="<audio>", replacement=f),',
        f"    PromptReplacement(modality=modality, target={target}, replacement=f)]",
    ]
    found = with_updates(lines)
    assert found.placeholder == kind
    assert ("# placeholder:" in found.yaml()) == (kind is None)


def test_targets_that_disagree_are_left_to_a_person() -> None:
    updates = [f'PromptReplacement("image", {target}, f)' for target in ("[a]", '"<image>"')]
    found = with_updates([f"return [{', '.join(updates)}]"])
    assert found.placeholder is None
    assert any("does not settle it" in gap for gap in found.gaps())


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("return self.ctx.get_hf_processor(TinyProcessor, **kwargs)", "transformers.TinyProcessor"),
        ("return TinyProcessor(self.config)", "transformers.TinyProcessor"),
        ("return self.ctx.get_hf_processor(AutoProcessor)", None),
    ],
)
def test_the_hugging_face_processor(body: str, name: str | None) -> None:
    method = f"    def get_hf_processor(self, **kwargs):\n        {body}\n"
    text = PROCESSOR.replace("class Processor(", f"{method}\nclass Processor(")
    imports = "from transformers import AutoProcessor, TinyProcessor\n"
    assert draft({"tiny.py": imports + text + MODEL}).hf_processor == name


def test_what_takes_no_images_is_said_so() -> None:
    text = PROCESSOR.replace('"image"', '"audio"')
    tree = small_tree({"tiny.py": text + MODEL})
    assert list(Surveyor(tree).drafts()) == []
    with pytest.raises(UsageError, match=r"^Arch of vLLM 1\.2\.3: it takes no images$"):
        infer_spec(tree, "Arch")
    with pytest.raises(UsageError, match="registers no multimodal processor"):
        draft({"tiny.py": "class Model: ...\n"})
    with pytest.raises(UsageError, match="did you mean Arch"):
        infer_spec(tree, "Arc")


def test_a_registry_that_names_a_missing_or_broken_file() -> None:
    with pytest.raises(SourceError, match=r"names the module vllm\.model_executor\.models\.tiny"):
        draft({"other.py": MODEL})
    with pytest.raises(SourceError, match=r"tiny\.py:2: not valid Python"):
        draft({"tiny.py": "x = 1\nclass (:\n"})


def test_nothing_of_the_tree_is_run() -> None:
    bomb = "raise SystemExit('run!')\n"
    assert draft({"tiny.py": bomb + PROCESSOR + MODEL}).class_name == "Model"


@given(st.from_regex(r"[A-Za-z_]\w{0,30}", fullmatch=True).filter(str.isascii))
def test_a_drafted_name_is_a_valid_one(architecture: str) -> None:
    slug = _slug(architecture)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug) or not re.search(r"[A-Za-z0-9]", architecture)


def test_the_draft_is_a_spec_file(tmp_path: Path) -> None:
    found = draft({"tiny.py": PROCESSOR + MODEL})
    path = tmp_path / f"{found.spec().name}.yaml"
    path.write_text(found.yaml())
    assert read_spec(path).facts() == found.spec().facts()
    assert yaml.safe_load(found.yaml())["images"]["geometry"] == "unknown"
    assert found.yaml().count("# fill in:") >= 4
