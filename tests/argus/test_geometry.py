"""A fork can rebuild the pixels: those of the runtime's `fixed` geometry, through a table of 256 values."""

import numpy as np
import pytest
import torch

from vlmopt.argus.scenes import Scenes
from vlmopt.runtime.arrange import cut_windows
from vlmopt.runtime.geometry import Geometry


@pytest.mark.parametrize("size", [(128, 128), (96, 96), (640, 41), (1, 1), (33, 500)])
def test_the_pixels_are_those_of_the_fixed_geometry(tiny, size):
    processor = tiny[1].image_processor
    facts = {
        "to_width": processor.size.width,
        "to_height": processor.size.height,
        "resize": processor.do_resize,
    }
    geometry = Geometry("fixed", {"library": "torchvision", "resample": "bicubic", **facts})
    layout = geometry.layout(*size)
    picture = Scenes("train", count=9)[8].image().resize(size)
    stock = processor(picture, return_tensors="pt")["pixel_values"]
    assert stock.shape == layout.shape
    table = processor(
        torch.arange(256, dtype=torch.uint8).expand(3, 256).reshape(3, 16, 16),
        do_resize=False,
        return_tensors="pt",
    )["pixel_values"].reshape(3, 256)
    cut = torch.from_numpy(cut_windows(np.asarray(picture), layout, native=False)).permute(2, 0, 1)
    rebuilt = torch.stack([values[plane.int()] for values, plane in zip(table, cut, strict=True)])
    assert torch.equal(rebuilt, stock[0])
