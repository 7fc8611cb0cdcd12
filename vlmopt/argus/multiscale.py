"""Seeing a picture at several scales, with one encoder of one input size.

Scale s shows the whole picture as s x s tiles of the encoder's size; scale 1 is the whole at once. The
features of a scale's tiles are laid out as one map of the whole picture, so that every token of the language
model covers the same place at all scales:

    pixels [n, 3, S, S] --views--> [n * V, 3, T, T] --encoder--> [n * V, g * g, d] --tokens--> [n, t * t, C]

with T = S / max(scales), V the sum of s * s, g patches along a tile, t tokens along the picture. At scale s a
token takes k x k cells of the map side by side (`cells`), each the mean of p x p patches,
p = s * g / (t * k); so C = d * (the sum of k * k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from vlmopt.argus.errors import InputError


@dataclass(frozen=True)
class MultiScale:
    """The arithmetic of the scales. `tile` is T in pixels, `patches` is g, `side` is t.

    Raises:
        InputError: the numbers do not divide each other as the module says.
    """

    scales: tuple[int, ...]
    cells: tuple[int, ...]
    tile: int
    patches: int
    side: int

    def __post_init__(self) -> None:
        if not self.scales or len(self.scales) != len(self.cells) or min(*self.scales, *self.cells) < 1:
            raise InputError(
                f"scales {self.scales} with cells {self.cells}: one number of cells for each scale"
            )
        for scale, cells in zip(self.scales, self.cells, strict=True):
            if max(self.scales) % scale:
                raise InputError(f"scale {scale} does not divide scale {max(self.scales)}")
            if scale * self.patches % (self.side * cells):
                raise InputError(
                    f"at scale {scale}, {scale * self.patches} patches along the picture do not divide into "
                    f"{self.side} tokens of {cells} cells"
                )

    @property
    def picture(self) -> int:
        """S, the side in pixels of the picture that `views` takes."""
        return self.tile * max(self.scales)

    @property
    def view_count(self) -> int:
        """V, the number of tiles of all scales."""
        return sum(scale * scale for scale in self.scales)

    @property
    def token_count(self) -> int:
        """The number of tokens that a picture becomes."""
        return self.side * self.side

    @property
    def width(self) -> int:
        """The number of cells in a token; times the encoder's width it is C."""
        return sum(cells * cells for cells in self.cells)

    def views(self, pixels: torch.Tensor) -> torch.Tensor:
        """The tiles of all scales: [n, 3, S, S] to [n * V, 3, T, T], picture by picture, scale by scale.

        Raises:
            InputError: `pixels` has another shape.
        """
        if pixels.ndim != 4 or pixels.shape[2:] != (self.picture, self.picture):
            wanted = f"[n, 3, {self.picture}, {self.picture}]"
            raise InputError(f"pixels of shape {list(pixels.shape)}, not {wanted}")
        count = len(pixels)
        tiles = []
        for scale in self.scales:
            shrunk = functional.avg_pool2d(pixels, max(self.scales) // scale)
            cut = shrunk.view(count, 3, scale, self.tile, scale, self.tile).permute(0, 2, 4, 1, 3, 5)
            tiles.append(cut.reshape(count, scale * scale, 3, self.tile, self.tile))
        return torch.cat(tiles, dim=1).flatten(0, 1)

    def tokens(self, features: torch.Tensor) -> torch.Tensor:
        """What the encoder made of `views`: [n * V, g * g, d] to [n, t * t, C]."""
        width = features.shape[-1]
        by_view = features.reshape(-1, self.view_count, self.patches, self.patches, width)
        count, start, parts = len(by_view), 0, []
        for scale, cells in zip(self.scales, self.cells, strict=True):
            tiles = by_view[:, start : start + scale * scale]
            start += scale * scale
            whole = tiles.reshape(count, scale, scale, self.patches, self.patches, width).transpose(2, 3)
            parts.append(self._gather(whole.reshape(count, scale * self.patches, -1, width), cells))
        return torch.cat(parts, dim=-1)

    def _gather(self, whole: torch.Tensor, cells: int) -> torch.Tensor:
        """One scale's map [n, m, m, d] to [n, t * t, cells * cells * d]."""
        count, along, _, width = whole.shape
        fine = self.side * cells
        means = whole.reshape(count, fine, along // fine, fine, along // fine, width).mean(dim=(2, 4))
        by_token = means.reshape(count, self.side, cells, self.side, cells, width).transpose(2, 3)
        return by_token.reshape(count, self.side * self.side, cells * cells * width)


def multi_scale(scales: Sequence[int], cells: Sequence[int], tile: int, patch: int, side: int) -> MultiScale:
    """The scales of an encoder that takes `tile` pixels in patches of `patch` pixels."""
    return MultiScale(tuple(scales), tuple(cells), tile, tile // patch, side)
