"""Every token sees the same place of the picture at all scales."""

import pytest
import torch
from torch.nn import functional

from vlmopt.argus.errors import InputError
from vlmopt.argus.multiscale import MultiScale, multi_scale

SHAPES = {
    "tiny": multi_scale([1, 2], [1, 2], 48, 8, 6),
    "large": multi_scale([1, 2], [3, 3], 378, 14, 9),
    "three": multi_scale([1, 2, 4], [1, 1, 2], 8, 2, 2),
    "one": multi_scale([1], [2], 12, 3, 2),
    "only-fine": multi_scale([2], [1], 12, 3, 2),
}
each_shape = pytest.mark.parametrize("scales", SHAPES.values(), ids=SHAPES)


def encode(views, patch):
    """An encoder that only sees: each patch becomes its mean color."""
    return functional.avg_pool2d(views, patch).flatten(2).transpose(1, 2)


@each_shape
def test_a_token_holds_the_colors_of_its_place(scales):
    pixels = torch.rand(3, 3, scales.picture, scales.picture, generator=torch.Generator().manual_seed(0))
    views = scales.views(pixels)
    assert views.shape == (3 * scales.view_count, 3, scales.tile, scales.tile)
    tokens = scales.tokens(encode(views, scales.tile // scales.patches))
    assert tokens.shape == (3, scales.token_count, 3 * scales.width)
    wanted = []
    for cells in scales.cells:
        along = scales.side * cells
        means = functional.adaptive_avg_pool2d(pixels, along)
        blocks = functional.unfold(means, cells, stride=cells).transpose(1, 2)
        wanted.append(blocks.unflatten(2, (3, cells * cells)).transpose(2, 3).flatten(2))
    torch.testing.assert_close(tokens, torch.cat(wanted, dim=2))


@each_shape
def test_pictures_of_a_batch_do_not_mix(scales):
    pixels = torch.rand(2, 3, scales.picture, scales.picture)
    patch = scales.tile // scales.patches
    both = scales.tokens(encode(scales.views(pixels), patch))
    for index in (0, 1):
        alone = scales.tokens(encode(scales.views(pixels[index : index + 1]), patch))
        torch.testing.assert_close(both[index : index + 1], alone)


def test_numbers_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match="scale 2 does not divide scale 3"):
        MultiScale((2, 3), (1, 1), 8, 2, 1)
    with pytest.raises(
        InputError, match="6 patches along the picture do not divide into 4 tokens of 1 cells"
    ):
        MultiScale((1,), (1,), 48, 6, 4)
    with pytest.raises(InputError, match="one number of cells for each scale"):
        MultiScale((1, 2), (1,), 48, 6, 6)
    with pytest.raises(InputError, match=r"pixels of shape \[1, 3, 48, 96\], not \[n, 3, 96, 96\]"):
        SHAPES["tiny"].views(torch.zeros(1, 3, 48, 96))
