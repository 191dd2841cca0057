"""The networks of the PyTorch image trainer: one for CPUs, and ResNet-50."""

from __future__ import annotations

from typing import Any

#: Blocks, channels inside of a block, and stride of each stage of ResNet-50 (He et al. 2015).
_STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
_EXPANSION = 4  # channels out of a block for each inside


def make(arch: str, classes: int) -> Any:
    """A network of images (n, 3, height, width) with ``classes`` outputs."""
    return small(classes) if arch == "small" else resnet50(classes)


def small(classes: int) -> Any:
    """Three convolutions: an image of 64 x 64 costs a core as much as decoding it does."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        *_head(64, classes),
    )


def resnet50(classes: int) -> Any:
    """He et al. 2015, with the stride in the 3 x 3 convolution of a block (Goyal et al. 2017)."""
    from torch import nn

    stem = (_convolution(3, 64, 7, stride=2), nn.ReLU(inplace=True))
    layers = [*stem, nn.MaxPool2d(3, stride=2, padding=1)]
    channels = 64
    for blocks, width, stride in _STAGES:
        for place in range(blocks):
            layers.append(_block(channels, width, stride if place == 0 else 1))
            channels = width * _EXPANSION
    return nn.Sequential(*layers, *_head(channels, classes))


def _block(channels: int, width: int, stride: int) -> Any:
    """Three convolutions beside a shortcut, which is a convolution if the shape changes."""
    from torch import nn

    class Bottleneck(nn.Module):  # type: ignore[misc]  # its types are not read
        def __init__(self) -> None:
            super().__init__()
            out = width * _EXPANSION
            self.path = nn.Sequential(
                _convolution(channels, width, 1),
                nn.ReLU(inplace=True),
                _convolution(width, width, 3, stride=stride),
                nn.ReLU(inplace=True),
                _convolution(width, out, 1),
            )
            same = channels == out and stride == 1
            self.shortcut = nn.Identity() if same else _convolution(channels, out, 1, stride=stride)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.relu(self.path(x) + self.shortcut(x))

    return Bottleneck()


def _convolution(channels: int, out: int, size: int, *, stride: int = 1) -> Any:
    """A convolution that keeps the size but for its stride, and a batch normalization."""
    from torch import nn

    convolution = nn.Conv2d(channels, out, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out))


def _head(channels: int, classes: int) -> tuple[Any, ...]:
    from torch import nn

    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
