"""Pictures to work with: the photographs inside scikit-image, and pools of distractors."""

from proofmap.data.pool import build_pool
from proofmap.data.samples import SAMPLES, load_sample, sample_path

__all__ = ["SAMPLES", "build_pool", "load_sample", "sample_path"]
