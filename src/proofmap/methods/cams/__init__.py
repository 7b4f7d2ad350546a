"""Class activation maps: weighted sums of a layer's feature maps."""

from proofmap.methods.cams.eigen_cam import EigenCAM
from proofmap.methods.cams.gradient_cams import GradCAM, GradCAMPlusPlus, LayerCAM
from proofmap.methods.cams.score_cam import ScoreCAM

__all__ = ["EigenCAM", "GradCAM", "GradCAMPlusPlus", "LayerCAM", "ScoreCAM"]
