"""What tests of several folders share: the folder of real data, and other libraries, also where torchvision is broken."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.util
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import typer
import typer.testing
from hypothesis import settings
from PIL import Image, ImageFont, PngImagePlugin

from proofmap import cli
from proofmap.core import batching
from proofmap.data import distractors
from proofmap.report.figures import drawing
from proofmap.study import planning as cost
from tests.browser import NoBrowser, chromium
from tests.processor_time import ProcessorTime

# no deadline: how long an example takes depends on the machine, not on us
settings.register_profile("thorough", deadline=None)
settings.register_profile("proofmap", deadline=None, max_examples=40)
settings.load_profile("proofmap")

drawing.DPI = 50  # figures have few pixels: no test looks at fine print
save_figure = drawing.save_figure


def save_empty_figure(drawn: Any, path: Path, **options: Any) -> None:
    """The figure is made, but written without its content: to lay it out and draw it takes longer than most tests."""
    drawn.set_visible(False)
    drawn.set_layout_engine("none")
    save_figure(drawn, path, **options)


drawing.save_figure = save_empty_figure


@pytest.fixture
def drawn_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn with their content."""
    monkeypatch.setattr(drawing, "save_figure", save_figure)


def save_png(image: Any, file: Any, name: str, **options: Any) -> None:
    """As Pillow writes a PNG, with the quickest compression: the pixels are the same."""
    image.encoderinfo = {**image.encoderinfo, "optimize": False, "compress_level": 1}
    PngImagePlugin._save(image, file, name, **options)


Image.register_save("PNG", save_png)

# one command line for all tests of a process: typer needs longer to build it than many commands need to run
cli.make_app = functools.cache(cli.make_app)
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)

cost.MEASURED = 0.02  # seconds for which a dry run measures the machine: no test asks for a good estimate

# photographs inside scikit-image are decoded once in a process
distractors.load_sample = functools.cache(distractors.load_sample)

make_samples, make_pool = functools.cache(distractors._named_samples), distractors._picture_pool
made_pools = dict[Any, distractors.Pool]()


def named_samples(names: Sequence[str]) -> Any:
    """The dataset of these sample photographs, which are decoded once."""
    samples = make_samples(tuple(names))
    if not hasattr(samples.read, "cache_info"):
        samples.read = functools.cache(samples.read)
    return samples


def picture_pool(pictures: Any, *rest: Any) -> distractors.Pool:
    """Pools of sample photographs are made once in a process: many tests use the same ones, of hundreds of crops."""
    if not {*pictures.names} <= {*distractors.SAMPLES}:
        return make_pool(pictures, *rest)
    key = tuple(pictures.names), *rest
    if key not in made_pools:
        made_pools[key] = make_pool(pictures, *rest)
    return made_pools[key]


distractors._named_samples = named_samples
distractors._picture_pool = picture_pool

# the words on sheets of pictures: a letter is drawn more slowly than a picture is enlarged, and many sheets have the same words
ImageFont.FreeTypeFont.getmask2 = functools.lru_cache(maxsize=500)(ImageFont.FreeTypeFont.getmask2)

# what a batch that failed leaves behind is young: the collector need not look at everything that the tests imported
batching.gc = SimpleNamespace(collect=lambda: gc.collect(1))

# the files of tests are kept in memory where the system has room for them: nobody waits for a disk, also not when they are deleted
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# a shell's background job begins with interrupts ignored, and every child of it
signal.signal(signal.SIGINT, signal.default_int_handler)

# what imports and collection make lives until the end: the garbage collector need not look at it again and again
gc.disable()

WAITING = (
    "tests/study/test_ray_executor.py",
    "tests/study/test_faults.py",
    "tests/study/test_power_cut.py",
    "tests/study/test_attacks.py",
    "tests/study/test_results.py",
    "tests/app/",
    "tests/report/test_page_in_browser.py",
    "tests/test_wheel.py",
)
"""Tests that wait for other processes. They begin first, on one worker of several, while the others compute; last, they would leave cores idle."""

LIBRARIES = (
    "tests/methods/test_adapters.py",
    "tests/methods/test_attention.py",
    "tests/methods/test_cam",
    "tests/methods/test_shap.py",
    "tests/metrics/test_minimality.py",
    "tests/metrics/test_localisation.py",
    "tests/models/test_clip.py",
    "tests/models/test_hub",
    "tests/models/test_probability_models.py",
    "tests/models/test_registry.py",
    "tests/models/test_text_models.py",
    "tests/contract/test_methods.py::test_method_of_another_library",
)
"""Tests that import timm, torchvision, transformers or shap. They follow each other, so that one worker imports these, in up to 7 s each, and not all."""


IN_BROWSER = set[Path]()
"""Files with tests in a browser. They follow each other, so that one browser serves them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    IN_BROWSER.update(item.path for item in items if "browser" in getattr(item, "fixturenames", ()))

    def begins(item: pytest.Item) -> tuple[bool, ...]:
        waits = item.nodeid.startswith(WAITING)
        return item.path not in IN_BROWSER, not waits, not item.nodeid.startswith(LIBRARIES)

    items.sort(key=begins)


LARGE = {
    *("captum", "cv2", "matplotlib.pyplot", "onnxruntime", "playwright", "pytorch_grad_cam", "ray"),
    *("scipy.stats", "shap", "skimage.segmentation", "sklearn", "timm", "torchvision", "transformers"),
}
"""Packages that no test file imports by itself: every worker would import them, in up to 3 s each. A test imports them, or ``Lazily``."""


def pytest_collection_finish() -> None:
    if found := LARGE & sys.modules.keys():
        raise pytest.UsageError(f"import {', '.join(sorted(found))} inside a test, or by tests.lazily.Lazily")
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 50)  # at the usual 700, collections take a twentieth of the time


_collected = list[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What lives when a file of tests begins is looked at no more: libraries that earlier files imported are millions of objects."""
    if _collected != [item.path]:
        gc.collect()
        gc.freeze()
        _collected[:] = [item.path]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-time", metavar="FILE", help="write what each test and file cost")


def pytest_configure(config: pytest.Config) -> None:
    if (
        "--processor-time" in config.invocation_params.args
    ):  # before it reads this file, pytest takes FILE for a path of tests
        raise pytest.UsageError("write --processor-time=FILE, with =")
    if config.getoption("--processor-time"):
        config.pluginmanager.register(ProcessorTime(config))


_kept_alive: list[torch.library.Library] = []  # a library's operators vanish with the object


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public research data, which is never part of the project."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PROOFMAP_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no data folder: set PROOFMAP_DATA to one")
    return folder


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch computes with one thread, however many it was given: for forked processes, which have none of the others, and for plans."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    """torchvision, also where its compiled half does not fit this torch: no classifier needs that half."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    try:
        return _imported("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        schemas = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            schemas.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept_alive.append(schemas)
        return _imported("torchvision")


@pytest.fixture(scope="session")
def timm(torchvision: ModuleType) -> ModuleType:
    """timm, which imports torchvision."""
    return _installed("timm")


@pytest.fixture(scope="session")
def pytorch_grad_cam(torchvision: ModuleType) -> ModuleType:
    """The package grad-cam, which imports torchvision."""
    return _installed("pytorch_grad_cam")


@pytest.fixture(scope="session")
def torchcam() -> ModuleType:
    """torch-cam's methods."""
    return _installed("torchcam.methods")


@pytest.fixture(scope="session")
def shap() -> ModuleType:
    """SHAP's explainers."""
    return _installed("shap")


@pytest.fixture(scope="session")
def lime() -> ModuleType:
    """LIME's explainers."""
    return _installed("lime.lime_tabular")


@pytest.fixture(scope="session")
def captum() -> ModuleType:
    """Captum's attributions."""
    return _installed("captum.attr")


@pytest.fixture(scope="session")
def transformers(torchvision: ModuleType) -> ModuleType:
    """transformers, which imports torchvision where it is installed."""
    return _installed("transformers")


_opened = contextlib.ExitStack()


@functools.cache
def _chromium() -> Any:
    return _opened.enter_context(chromium())


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium with the network off; one for all files that follow each other."""
    try:
        return _chromium()
    except NoBrowser as reason:
        pytest.skip(str(reason))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Chromium is closed before the first file without it: Playwright's event loop allows no other."""
    if item.path in IN_BROWSER and (nextitem is None or nextitem.path not in IN_BROWSER):
        _opened.close()
        _chromium.cache_clear()


def _installed(name: str) -> ModuleType:
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    return _imported(name)


def _imported(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)
