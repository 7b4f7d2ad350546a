"""Datasets in common formats, the loader, sample photographs, and pools of distractors (images that are shown behind hidden pixels)."""

from proofmap.data.arrays import ArrayImages, TensorData
from proofmap.data.dataset import Dataset, list_datasets, random_choice, true_outputs
from proofmap.data.loader import ImageBlock, load_blocks
from proofmap.data.specs import load_dataset, open_data, rebuild_dataset
from proofmap.data.table_rows import TableData

__all__ = [
    "ArrayImages",
    "Dataset",
    "ImageBlock",
    "TableData",
    "TensorData",
    "list_datasets",
    "load_blocks",
    "load_dataset",
    "open_data",
    "random_choice",
    "rebuild_dataset",
    "true_outputs",
]
