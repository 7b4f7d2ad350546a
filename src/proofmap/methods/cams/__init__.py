"""Class activation maps: weighted sums of the last feature maps."""

from proofmap.methods.cams.grad_cam import GradCAM

__all__ = ["GradCAM"]
