"""Datasets in common formats, the loader, sample photographs, and pools of distractors (images that are shown behind hidden pixels)."""

from proofmap.data.arrays import ArrayImages, array_file, cifar10, cifar100
from proofmap.data.dataset import Dataset, choose_names, match_labels, random_choice, true_outputs, truths
from proofmap.data.folders import ImageFiles, image_csv, image_folder, pascal_voc
from proofmap.data.given import BatchData, as_dataset
from proofmap.data.huggingface import HuggingFaceImages, hugging_face
from proofmap.data.imagenet_folders import (
    IMAGENETTE,
    Corners,
    imagenet,
    imagenet_real,
    imagenette,
    imagenette_corner,
)
from proofmap.data.loader import ImageBlock, Unreadable, load_blocks
from proofmap.data.photos import SAMPLES, load_sample, sample_path
from proofmap.data.pool import build_pool
from proofmap.data.series_files import SeriesFile, series_file
from proofmap.data.specs import (
    DatasetInfo,
    list_datasets,
    load_dataset,
    open_data,
    photographs,
    rebuild_dataset,
    sample_photos,
)
from proofmap.data.table_rows import TableData, table_file
from proofmap.data.tensors import TensorData

__all__ = [
    "load_dataset",
    "open_data",
    "photographs",
    "rebuild_dataset",
    "list_datasets",
    "DatasetInfo",
    "Dataset",
    "true_outputs",
    "truths",
    "match_labels",
    "pascal_voc",
    "random_choice",
    "choose_names",
    "load_blocks",
    "ImageBlock",
    "Unreadable",
    "ImageFiles",
    "image_folder",
    "image_csv",
    "imagenette",
    "IMAGENETTE",
    "imagenette_corner",
    "Corners",
    "imagenet",
    "imagenet_real",
    "ArrayImages",
    "array_file",
    "cifar10",
    "cifar100",
    "TensorData",
    "TableData",
    "SeriesFile",
    "series_file",
    "table_file",
    "BatchData",
    "as_dataset",
    "HuggingFaceImages",
    "hugging_face",
    "sample_photos",
    "SAMPLES",
    "build_pool",
    "load_sample",
    "sample_path",
]
