"""A vLLM plugin with a load format, `random`: seeded weights of a size at which a model still sees its image.

vLLM's own dummy weights are so small that every prompt gets the same answer, so that a comparison of answers
could not fail. This folder on PYTHONPATH is enough: vLLM finds the plugin by its entry point.
"""

import zlib

import torch


def register() -> None:
    """Called by vLLM when it loads its plugins, once a process and maybe twice."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.dummy_loader import DummyModelLoader

    @register_model_loader("random")
    class RandomLoader(DummyModelLoader):
        def load_weights(self, model: torch.nn.Module, model_config: object) -> None:
            for name, tensor in model.state_dict().items():
                if tensor.is_floating_point():
                    tensor.copy_(weights(name, tensor.shape))


def weights(name: str, shape: torch.Size) -> torch.Tensor:
    """float32 weights that depend on the name and shape alone.

    Matrices keep the variance of their input: N(0, 1 / fan in). Embeddings are N(0, 1), norms are near 1, and
    biases near 0.
    """
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
    if len(shape) < 2:
        return 0.1 * noise + (0 if name.endswith("bias") else 1)
    if "embed" in name:
        return noise
    return noise * noise[0].numel() ** -0.5
