"""What replaces hidden pixels: the random part of the paper's input modification Gamma."""

from proofmap.fills.fill import FILLS, Blur, Fill, Gray, Images, Noise, make_fill

__all__ = ["FILLS", "Blur", "Fill", "Gray", "Images", "Noise", "make_fill"]
