"""A vLLM of a few lines: a registry and the model files that a test gives."""

from collections.abc import Iterable, Mapping

from tests.plan.memory_tree import MemoryTree

REGISTRY = "vllm/model_executor/models/registry.py"
MODELS = "vllm/model_executor/models"

PROCESSOR = """\
class InfoBase:
    def get_supported_mm_limits(self):
        return {"image": None}

class Processor(ProcessorBase):
    def _get_mm_fields_config(self, hf_inputs, kwargs):
        return dict(
            pixel_values=MultiModalFieldConfig.batched("image"),
        )

    def _get_prompt_updates(self, mm_items, kwargs, out):
        return [PromptReplacement(modality="image", target=[token_id], replacement=f)]
"""

MODEL = """\
@MULTIMODAL_REGISTRY.register_processor(Processor, info=InfoBase, dummy_inputs=Dummy)
class Model(nn.Module):
    pass
"""


def registry(rows: Mapping[str, tuple[str, str]]) -> str:
    """The text of a registry with these multimodal models."""
    table = "".join(f"    {name!r}: {row!r},\n" for name, row in rows.items())
    return f"_MULTIMODAL_MODELS = {{\n{table}}}\n\n_VLLM_MODELS = {{**_MULTIMODAL_MODELS}}\n"


def small_tree(files: Mapping[str, str], rows: Mapping[str, tuple[str, str]] | None = None) -> MemoryTree:
    """A tree of model files by name (`tiny.py`, or a whole path), with a row `Arch: (tiny, Model)`."""
    paths = {path if path.startswith("vllm/") else f"{MODELS}/{path}": text for path, text in files.items()}
    return MemoryTree({REGISTRY: registry(rows or {"Arch": ("tiny", "Model")}), **paths})


def indented(lines: Iterable[str], by: int = 8) -> str:
    """Lines of a body."""
    return "".join(f"{' ' * by}{line}\n" for line in lines)
