"""An engineer with a net of one channel in a file, who makes every mistake once; then evaluate, audit, compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.walks.conftest import Proofmap
from tests.walks.shapes import NAMES, RIGHT, SIZE, save_pictures, save_weights, write_net

EVALUATE = (
    *("evaluate", "--model", "net.py:shapes", "--device", "cpu", "--labels", "all"),
    *("--methods", "gradient,grad-cam,random", "--no-pictures", "--quiet"),
)
XRAYS = (*EVALUATE, "--data", "xrays")


@pytest.fixture
def net(here: Path) -> Path:
    """The engineer's folder: weights, pictures, and the file that is edited."""
    save_weights(here / "weights.pt")
    save_pictures(here / "xrays")
    return here / "net.py"


def left(here: Path) -> set[str]:
    return {path.name for path in here.iterdir()} - {"weights.pt", "xrays", "net.py", "__pycache__"}


@pytest.mark.slow
def test_an_engineer_with_an_own_net(net: Path, here: Path, proofmap: Proofmap) -> None:
    # what is wrong at once is refused, with what to do, and nothing is written
    for arguments, words in (
        (RIGHT.replace("0.3", "76.5").replace("0.25", "63.75"), ("units of 0..255", "mean=(0.3,), std=(0.25,)")),
        (RIGHT.replace("(0.3,)", "(0.3,) * 3").replace("(0.25,)", "(0.25,) * 3"), ("mean and std: they have an entry for each channel",)),
        (RIGHT.replace(str(list(NAMES)), str(list(NAMES[:2]))), ("names has 2 entries", "3 outputs; give one name for each output")),
        (RIGHT.replace(f"size={SIZE}", "size=1"), ("fails on two images of shape (1, 1, 1)", "Check the size")),
    ):  # fmt: skip
        write_net(net, arguments)
        proofmap(*XRAYS, "--out", "run").refuses(*words)
        assert left(here) == set()
    write_net(net)
    proofmap(*XRAYS, "--out", "run", "--model", "net.py:shape").refuses("shapes")

    # folders that are not called as the net's labels are
    save_pictures(here / "wrong", called=("effusion", "nodule", "normal"))
    proofmap(*EVALUATE, "--data", "wrong", "--out", "run").refuses(
        "none of the labels of wrong", "'bar', 'disc', 'ring'", "rename them"
    )
    assert left(here) == {"wrong"}

    # what only the answers of the net can tell: names in another order, pictures of another size
    for arguments, out in (
        (RIGHT.replace(str(list(NAMES)), str(["ring", "bar", "disc"])), "order"),
        (RIGHT.replace(f"size={SIZE}", "size=8"), "size"),
    ):
        write_net(net, arguments)
        answer = proofmap(*XRAYS, "--methods", "random", "--metrics", "insertion", "--out", out)
        answer.works()
        assert "suspicious: " in answer.err and "of 15 right" in answer.err
        assert (
            "check the names of the labels and their order, the weights, size, and mean and std" in answer.err
        )

    # right at last
    write_net(net)
    answer = proofmap(*XRAYS, "--out", "run")
    answer.works()
    assert "suspicious" not in answer.err
    assert {"run.json", "report.html", "scores.csv", "scores.sqlite"} <= {
        p.name for p in (here / "run").iterdir()
    }

    # the net is edited after the run: never mixed, and the run stays what it was
    before = (here / "run" / "scores.csv").read_bytes()
    text = net.read_text()
    net.write_text(
        text.replace("    net.load_state_dict", "    net[1] = nn.Sigmoid()\n    net.load_state_dict")
    )
    proofmap(*XRAYS, "--out", "run").refuses("run holds a run of something else", "Choose another --out")
    proofmap(*XRAYS, "--methods", "gradient", "--out", "edited").works()
    assert (here / "run" / "scores.csv").read_bytes() == before
    net.write_text(text)
    answer = proofmap(*XRAYS, "--out", "run", "--format", "json")
    answer.works()
    assert len(json.loads(answer.out)["images"]) == 15

    # audit and compare
    proofmap(*XRAYS, "--out", "run", "--controls").works()
    low = proofmap("audit", "run", "--method", "gradient", "--min-completeness", "0.5")
    assert low.code == 1 and "random and centered-gaussian pass, which know nothing of the net" in low.out, (
        "a bar that noise reaches"
    )
    proofmap("audit", "run", "--method", "gradient", "--min-completeness", "0.95").works()
    high = proofmap(
        "audit", "run", "--method", "gradient", "--min-completeness", "0.9", "--min-soundness", "0.9"
    )
    assert high.code == 1 and "audit failed: 1 of 2 bars missed" in high.out
    proofmap("audit", "run").refuses("--min-completeness 0.8")
    answer = proofmap("audit", "order", "--bar", "insertion=0", "--method", "random")
    answer.works()
    assert "suspicious: " in answer.err, "whoever audits a suspicious run is told"
    answer = proofmap("compare", "run", "--baseline", "random")
    answer.works()
    assert "grad-cam" in answer.out and "difference" in answer.out
    proofmap("compare", "run", "edited").refuses("--allow-mismatch")
    answer = proofmap("compare", "run", "edited", "--allow-mismatch", "--baseline", "run/gradient")
    answer.works()
    assert "edited/gradient" in answer.out
