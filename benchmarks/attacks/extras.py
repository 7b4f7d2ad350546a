"""Install the wheel with each extra by itself, and use the feature that the extra is for.

One environment has Proofmap without any extra. For each extra, a new environment sees those packages and gets what
``pip install 'proofmap[EXTRA]'`` adds to them. There the feature must run. In the environment without extras it must end with a
message that names what to install. A line is printed for each extra: ``runs``, ``says what is missing``, or what went wrong (exit code 1).
Torch has the version of constraints.txt; the other packages are the newest that pip finds. This needs a package index and 6 GB of disk.

    python benchmarks/attacks/extras.py                        # every extra that people install, with this Python
    python benchmarks/attacks/extras.py captum shap --python python3.13
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_FEATURES = ("oracles", "browser", "docs", "dev")
"""Extras for contributors."""

SETTING = """
import torch
import numpy as np
import proofmap as pm
from PIL import Image
from pathlib import Path

def make():
    torch.manual_seed(0)
    pooled = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten()]
    return pm.Classifier(torch.nn.Sequential(*pooled, torch.nn.Linear(16, 3)), size=16, batch_size=8)

net, images = make(), torch.rand(2, 3, 16, 16)
rows, classes = np.random.default_rng(0).random((40, 3)), np.arange(40) % 2
for name in ("model.txt", "model.json", "model.skops", "model.joblib"):
    Path(name).touch()

def explained(method):
    assert pm.explain(net, images, labels="top2", method=method).maps.isfinite().all()

def judged():
    return pm.evaluate(net, images, methods=["gradient"], labels="top2")

def study(**options):
    Path("photos").mkdir(exist_ok=True)
    for k in range(2):
        Image.fromarray((rows[:36].reshape(6, 6, 3) * 127 * (k + 1)).astype("uint8")).save(f"photos/{k}.png")
    settings = pm.Study(data=["photos"], methods=["gradient"], labels="top2")
    pm.run_study(settings, "run", classifier=net, threads=1, **options)
    return pm.Run("run")

def tracked(name):
    from proofmap.cli.evaluate import _trackers_for as trackers_for
    trackers_for([name])(judged(), Path("."))

def table(model):
    found = pm.explain(pm.load_classifier(model, data=rows), torch.as_tensor(rows[:2]).float(), labels="all")
    assert found.maps.isfinite().all()
"""
FEATURES: dict[str, tuple[str, str]] = {
    "demo": ("", "pm.load_images(['sample:rocket'], pm.load_classifier('efficientnet-lite0'))"),
    "models": ("", "pm.load_classifier('efficientnet-lite2')"),
    "figures": ("", "pm.draw_figure('curves', out='figures', evaluation=judged())"),
    "captum": ("", "explained('captum:IntegratedGradients(n_steps=4)')"),
    "grad-cam": ("", "explained('pytorch-grad-cam:GradCAM')"),
    "app": ("", "SERVE"),
    "ray": ("", "from proofmap.study import RayExecutor; study(executor=RayExecutor(workers=1))"),
    "parquet": (
        "import pyarrow as a, pyarrow.parquet as p; p.write_table(a.table({'text': ['one two', 'three']}), 'notes.parquet')",
        "from proofmap.data import open_data; open_data('text:notes.parquet?column=text')",
    ),
    "pandas": ("", "judged().to_dataframe()"),
    "polars": (
        "import polars; frame = polars.DataFrame(rows, schema=['a', 'b', 'c'])",
        "pm.explain(pm.Classifier(lambda x: np.c_[x['a'] / 2, 1 - x['a'] / 2], data=frame), frame[:2], labels='all')",
    ),
    "tensorboard": ("", "tracked('tensorboard')"),
    "mlflow": ("", "tracked('mlflow')"),
    "wandb": ("", "tracked('wandb')"),
    "timm": ("", "pm.load_classifier('timm:resnet18?pretrained=false')"),
    "hf": (
        "from transformers import ViTConfig, ViTForImageClassification as V, ViTImageProcessor as P; "
        "V(ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=16, patch_size=8))"
        ".save_pretrained('vit'); P(size={'height': 16, 'width': 16}).save_pretrained('vit')",
        "pm.load_classifier('hf:vit')",
    ),
    "torchvision": ("", "pm.load_classifier('torchvision:resnet18?pretrained=false')"),
    "onnx": ("", "pm.load_classifier('onnx:picture.onnx')"),
    "shap": ("", "explained('shap:PermutationExplainer')"),
    "text": ("", "pm.load_classifier('minilm-zero-shot?labels=sport,politics')"),
    "lime": (
        "",
        "from proofmap.core.inputs import Rows; f = pm.Classifier(torch.nn.Linear(3, 2), inputs=Rows(columns=3, mean=(0.5,) * 3, std=(1.0,) * 3)); "
        "pm.explain(f, torch.as_tensor(rows[:8]).float(), labels='all', method='lime-tabular:samples=50')",
    ),
    "sklearn": (
        "import joblib; from sklearn.linear_model import LogisticRegression as M; joblib.dump(M().fit(rows, classes), 'model.joblib')",
        "table('sklearn:model.joblib?pickle=true')",
    ),
    "skops": (
        "import skops.io; from sklearn.linear_model import LogisticRegression as M; skops.io.dump(M().fit(rows, classes), 'model.skops')",
        "table('sklearn:model.skops')",
    ),
    "xgboost": (
        "from xgboost import XGBClassifier as M; M(n_estimators=4).fit(rows, classes).save_model('model.json')",
        "table('xgboost:model.json')",
    ),
    "lightgbm": (
        "import lightgbm as M; M.train({'objective': 'binary', 'verbose': -1}, M.Dataset(rows, classes), 4).save_model('model.txt')",
        "table('lightgbm:model.txt')",
    ),
    "theory": (
        "",
        "from proofmap.theory.linear import REAL; assert REAL['digits'](2) and REAL['languages'](2)",
    ),
}
"""For each extra: what a user of its package has made before, and the feature that needs the package."""
SERVE = """
import subprocess, sys, urllib.request
Path("net.py").write_text("import torch, proofmap as pm\\ndef make():\\n    return pm.Classifier(torch.nn.Sequential("
    "torch.nn.Flatten(), torch.nn.Linear(48, 3)), size=4)\\n")
asked = [sys.executable, "-m", "proofmap", "serve", "--model", "net.py:make", "--port", "0", "--no-browser"]
with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
    printed = server.stdout.readline()
    if not printed:
        sys.exit(server.stderr.read())
    assert b"<html" in urllib.request.urlopen(printed.split()[-1], timeout=600).read()
    server.terminate()
"""


def environment(python: str, folder: Path, requirements: list[str], borrowed: Path | None = None) -> Path:
    """A new environment; its interpreter. It also sees the packages of the environment ``borrowed``."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    executable = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if borrowed is not None:
        (packages,) = folder.glob("[Ll]ib/**/site-packages")
        (base,) = borrowed.glob("[Ll]ib/**/site-packages")
        (packages / "base.pth").write_text(f"{base}\n", encoding="utf-8")
    pip = [str(executable), "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
    subprocess.run([*pip, *requirements], check=True)
    return executable


def outcome(python: Path, folder: Path, code: str) -> str:
    """``runs``, the message about what is missing, or the last line of an error."""
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "tests" / "models" / "picture.onnx", folder)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    settings = {
        **kept,
        "WANDB_MODE": "offline",
        "OMP_NUM_THREADS": "1",
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
    }
    asked = [str(python), "-c", SETTING + code]
    done = subprocess.run(asked, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "runs"
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
    named = [line for line in lines if re.search(r"proofmap\[[\w-]+\]|do not match", line)]
    return f"says what is missing: {named[-1].split(': ', 1)[-1]}" if named else f"WRONG: {lines[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", help="names of extras; every one that people install by default")
    parser.add_argument("--python", default=sys.executable, help="the Python to use; by default this one")
    chosen = parser.parse_args()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    unknown = set(chosen.extras) - FEATURES.keys()
    untried = declared.keys() - FEATURES.keys() - set(NOT_FEATURES)
    if unknown or untried:
        parser.error(f"no feature is known for {', '.join(sorted(unknown | untried))}")
    wrong = []
    with tempfile.TemporaryDirectory(prefix="proofmap-extras-") as text:
        folder = Path(text)
        build = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(folder / "dist"),
        ]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = (folder / "dist").iterdir()
        (torch,) = re.findall(r"^torch==\S+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
        plain = environment(chosen.python, folder / "plain", [torch, str(wheel)])
        for extra in chosen.extras or FEATURES:
            before, feature = FEATURES[extra]
            code = SERVE if feature == "SERVE" else feature
            without = "not tried" if extra == "polars" else outcome(plain, folder / f"without-{extra}", code)
            place = folder / extra
            try:
                python = environment(chosen.python, place, [torch, f"{wheel}[{extra}]"], folder / "plain")
                found = outcome(python, folder / f"with-{extra}", f"{before}\n{code}")
                added = len(list(place.glob("lib/python*/site-packages/*.dist-info"))) - 1
            except subprocess.CalledProcessError:
                found, added = "WRONG: pip could not install it", 0
            shutil.rmtree(place, ignore_errors=True)
            if "WRONG" in found + without or without == "runs":
                wrong.append(extra)
            print(f"{extra:<12} {found} ({added} packages)\n{'':<12} without it: {without}", flush=True)
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
