"""What must hold on a GPU; skipped where there is none."""

from __future__ import annotations

import base64
import copy
import warnings
from pathlib import Path

import pytest
import torch

import proofmap as pm
from benchmarks.maskers.train import train_masker
from proofmap.core import streams
from proofmap.fills import Noise
from proofmap.methods.controls import TopLabel
from proofmap.metrics.axioms import check_axioms
from tests.sessions import bound
from tests.study.studies import facts
from tests.toys import MEAN, STD, conv_net, pixels, token_net

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


PERTURBATION = (
    "occlusion",
    "rise:masks=100",
    "shapley:orders=3,regions=9",
    "kernel-shap:samples=60,regions=9",
    "greedy-insertion:regions=9",
    "belief-order:regions=9",
)


def classifier(device: str, **options: object) -> pm.Classifier:
    return pm.Classifier(conv_net(seed=3), size=16, mean=MEAN, std=STD, device=device, **options)  # type: ignore[arg-type]


BACKWARD = (
    "gradient",
    "gradient-x-input",
    "smooth-grad:samples=4",
    "integrated-gradients",
    "guided-backprop",
    "rect-grad",
    "lrp",
    "contrastive-lrp",
    "deep-lift",
)


def test_random_numbers_are_the_same_on_both_devices() -> None:
    keys = torch.tensor([streams.key_of("a"), streams.key_of("b")])
    assert torch.equal(streams.random_words(keys, 999), streams.random_words(keys.cuda(), 999).cpu())
    images = pixels(2, 16)
    assert torch.equal(streams.image_keys(images, 0), streams.image_keys(images.cuda(), 0).cpu())


def test_every_method_and_score_agrees_with_the_cpu() -> None:
    images = pixels(3, 16)
    distractors = pm.Images(source=pixels(8, 16, seed=9), size=8, crop="none")
    methods = [
        pm.LearnedMask(steps=5, scale=2, fill=distractors),
        pm.LearnedMask(steps=5, scale=2, fill="blur", masks=2),
        *map(pm.make_method, (*BACKWARD, "grad-cam", "random", "centered-gaussian")),
        TopLabel(of="grad-cam"),
        *map(pm.make_method, PERTURBATION),
        *map(pm.make_method, ("edges", "inverse:gradient", "blurred:grad-cam")),
    ]
    found = [
        pm.evaluate(classifier(device), images, methods=methods, labels="p>=0.05")
        for device in ("cpu", "cuda")
    ]
    for on_cpu, on_gpu in zip(found[0].results, found[1].results, strict=True):
        for a, b in zip(on_cpu.scores, on_gpu.scores, strict=True):
            assert abs(a.value - b.value) < 0.02, (on_cpu.name, a.name, a.value, b.value)


@pytest.mark.parametrize(
    "kind, method",
    [
        ("dabkowski", "real-time-saliency:weights={}"),
        ("phang-fix", "phang-masker:variant=fix,weights={}"),
        ("phang-ca", "phang-masker:weights={}"),
    ],
)
def test_maskers_are_trained_and_used_on_both_devices(kind: str, method: str, tmp_path: Path) -> None:
    images = pixels(6, 16)
    truth = torch.arange(len(images)) % len(classifier("cpu").names)  # every label occurs
    for device in ("cpu", "cuda"):
        out = tmp_path / f"{device}.safetensors"
        train_masker(kind, classifier(device), images, truth, out=out, steps=4, batch=4, width=4)
    labels = classifier("cpu").top(images, 2)
    for trained_on in ("cpu", "cuda"):
        made = pm.make_method(method.format(tmp_path / f"{trained_on}.safetensors"))
        on_cpu, on_gpu = (made(classifier(device), images, labels).cpu() for device in ("cpu", "cuda"))
        assert torch.allclose(on_cpu, on_gpu, atol=5e-3 * float(on_cpu.abs().max()))


CAMS = ["grad-cam", "grad-cam++", "layer-cam", "score-cam"]
ATTENTION = ["attention-rollout", "chefer"]


@pytest.mark.parametrize("name", [*CAMS, *ATTENTION])
def test_maps_of_layers_and_attention_agree_with_the_cpu_also_in_half_precision(name: str) -> None:
    images, labels = pixels(3, (16, 20)), torch.tensor([[0, 1], [2, 3], [1, 0]])
    net = token_net((16, 20)) if name in ATTENTION else conv_net(seed=3)
    expected = pm.make_method(name)(pm.Classifier(net, size=(16, 20)), images, labels)
    for dtype, least in ((torch.float32, 0.9999), (torch.float16, 0.98)):
        f = pm.Classifier(copy.deepcopy(net).to(dtype), size=(16, 20), device="cuda")
        maps = pm.make_method(name)(f, images, labels)
        assert maps.is_cuda and maps.dtype == torch.float32
        both = torch.stack([maps.cpu().flatten(), expected.flatten()])
        assert float(torch.corrcoef(both)[0, 1]) > least, dtype


@pytest.mark.parametrize(
    "spec, library",
    [
        ("captum:IntegratedGradients(n_steps=4,baselines=gray)", "captum"),
        ("captum:LayerGradCam", "captum"),
        ("pytorch-grad-cam:GradCAM", "pytorch_grad_cam"),
    ],
)
def test_methods_of_other_libraries_agree_with_the_cpu(
    spec: str, library: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(library)
    method, images, labels = pm.make_method(spec), pixels(3, 16), torch.tensor([[0, 1], [2, 3], [1, 0]])
    on_cpu, on_gpu = (method(classifier(device), images, labels) for device in ("cpu", "cuda"))
    assert on_gpu.is_cuda
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-2, atol=1e-3 * float(on_cpu.abs().max()))


def test_random_maps_of_other_libraries_leave_the_generators_of_the_gpu_alone(
    request: pytest.FixtureRequest,
) -> None:
    request.getfixturevalue("captum")
    method = pm.make_method("captum:NoiseTunnel(attribution_method=Saliency,nt_samples=2)")
    f, images, labels = classifier("cuda"), pixels(2, 16), torch.tensor([[0, 1], [2, 3]])
    torch.cuda.manual_seed(7)
    before = torch.cuda.get_rng_state()
    maps = method(f, images, labels)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    torch.cuda.manual_seed(8)
    torch.testing.assert_close(method(f, images.flip(0), labels.flip(0)).flip(0), maps)


def test_every_measure_agrees_with_the_cpu() -> None:
    images, labels = pixels(3, 16), torch.tensor([[0, 1], [2, 3], [1, 0]])
    known = [{0: [(0, 0, 8, 16)], 1: [(8, 0, 16, 16)]}, {2: [(1, 1, 9, 9)], 3: [(9, 9, 16, 16)]}, {}]
    measures = [
        "completeness:base=lerf,target=decision",
        "soundness:target=rival",
        *("insertion:target=margin", "morf", "lerf", "srg"),
        *("average-drop", "increase-in-confidence"),
        *("saliency-metric", "saliency-metric:piece=largest", "saliency-area"),
        *("pointing-game:tolerance=0", "energy-inside", "box-iou", "two-objects", "two-objects:by=energy"),
        *("sufficient-region", "sufficient-region:keeps=label"),
    ]
    found = [
        pm.evaluate(
            classifier(device), images, methods=["occlusion"], labels=labels, objects=known, metrics=measures
        )
        for device in ("cpu", "cuda")
    ]
    for a, b in zip(found[0].results[0].scores, found[1].results[0].scores, strict=True):
        assert abs(a.value - b.value) < 0.02 or a.value != a.value, (a.name, a.value, b.value)
    assert check_axioms("gradient", device="cuda").kept == check_axioms("gradient").kept


def test_random_fills_draw_the_same_backgrounds_on_both_devices() -> None:
    images, keys = pixels(2, 16), torch.tensor([1, 2])
    for fill in (Noise(), pm.Images(source=pixels(8, 16, seed=9), size=8, crop="none")):
        on_cpu, on_gpu = (bound(fill, classifier(d))(images.to(d), keys.to(d)).cpu() for d in ("cpu", "cuda"))
        assert torch.allclose(on_cpu, on_gpu, atol=1e-5)


LEARNED = pm.LearnedMask(steps=20, scale=2, fill=pm.Images(source=pixels(8, 16, seed=9), size=8, crop="none"))


@pytest.mark.parametrize("method", [LEARNED, *BACKWARD, "grad-cam", *PERTURBATION], ids=lambda m: str(m)[:20])
def test_maps_twice_give_the_same_bits(method: str | pm.Method) -> None:
    images, labels = pixels(3, 16).cuda(), torch.tensor([[0, 1], [2, 3], [1, 0]]).cuda()
    f = classifier("cuda")
    first = pm.make_method(method)(f, images, labels)
    for _ in range(5):
        assert torch.equal(pm.make_method(method)(f, images, labels), first)


def test_running_out_of_device_memory_halves_the_batch_and_goes_on() -> None:
    f = classifier("cuda", batch_size=4096)
    images = pixels(4096, 16)
    expected = classifier("cuda", batch_size=64).probabilities(images)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 40 * 2**20) / total)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = f.probabilities(images)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert len(told) == 1 and "out of memory" in str(told[0].message)
    assert f.batches[0].size < 4096
    assert torch.allclose(found, expected, atol=1e-5)


def test_bfloat16_masks_prove_about_as_much() -> None:
    images, labels = pixels(2, 16).cuda(), torch.tensor([[0, 1], [2, 3]]).cuda()
    fill = pm.Images(source=pixels(8, 16, seed=9), size=8, crop="none")
    f = classifier("cuda")
    areas = [
        pm.insertion(
            f, images, pm.LearnedMask(steps=60, scale=2, fill=fill, precision=p)(f, images, labels), labels
        ).auc
        for p in ("float32", "bfloat16")
    ]
    assert (areas[0] - areas[1]).abs().max() < 0.05


def test_a_study_gives_the_same_bits_whether_interrupted_or_not(tmp_path: Path) -> None:
    import numpy as np

    from proofmap.data import ArrayImages
    from proofmap.study.executor import LocalExecutor

    class Interrupted(LocalExecutor):
        """Stops after two units, as a person might."""

        def run(self, make_worker, units):  # type: ignore[no-untyped-def]
            for k, found in enumerate(super().run(make_worker, units)):
                yield found
                if k == 1:
                    raise KeyboardInterrupt

    photos = ArrayImages((pixels(7, 16).permute(0, 2, 3, 1) * 255).round().numpy().astype(np.uint8))
    study = pm.Study(
        labels="top3", methods=["learned-mask:steps=20,fill=gray", "gradient"], images_per_unit=3
    )
    rows = []
    for name in ("whole", "interrupted"):
        folder = tmp_path / name
        if name == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                pm.run_study(
                    study, folder, classifier=classifier("cuda"), dataset=photos, executor=Interrupted()
                )
        outcome = pm.run_study(study, folder, classifier=classifier("cuda"), dataset=photos)
        assert outcome.complete
        rows.append(facts(folder)["per_label"])
    assert rows[0] == rows[1] and len(rows[0]) == 2 * 4 * 7 * 3


def test_serve_works_on_a_gpu() -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx2")  # of the test client
    from proofmap.app.choices import Choices
    from proofmap.app.nets import Nets, Offer
    from proofmap.app.server import Server
    from tests.app.served import begun, opened, uploaded, worked_off

    net = classifier("cuda")
    server = Server(Nets([Offer("toy", "a toy", lambda: net)]), Choices(), device="cuda")
    with opened(server) as client:
        photo = uploaded(client)
        job = begun(client, photo, ["belief-mask:passes=12", "grad-cam"], fill="noise", labels=[0, 1])
        worked_off(server)
        assert client.get(f"/api/jobs/{job}").json()["message"] == ""
        assert client.get(f"/api/photos/{photo}/fill?net=toy&fill=images").status_code == 200
        area = client.get(f"/api/jobs/{job}/maps/0/1").json()["area"]
        assert 0 <= area <= 1
        mask = base64.b64encode(bytes([0xF0] * 32)).decode()
        painted = client.post("/api/paint", json={"photo": photo, "net": "toy", "mask": mask, "job": job})
        assert len(painted.json()["machine"]) == 4 and painted.json()["share"] == 0.5
        for file in ("sheet.png", "page.html", "maps.safetensors"):
            assert client.get(f"/api/jobs/{job}/files/{file}").status_code == 200


def test_a_frozen_net_has_matrices_for_convolutions_over_single_positions() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.Conv2d(8, 64, 1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 64, 4),
    )
    x, found = pixels(5, 8), {}
    for device in ("cpu", "cuda"):
        f = pm.Classifier(copy.deepcopy(net), size=8, device=device)
        found[device] = f.frozen()(x.to(device)).detach().cpu()
        kinds = {type(module).__name__ for module in f.frozen().net.modules()}  # type: ignore[union-attr]
        assert ("PointwiseConv2d" in kinds) == (device == "cuda")
    torch.testing.assert_close(found["cpu"], found["cuda"], rtol=1e-4, atol=1e-5)
    assert "PointwiseConv2d" not in {type(m).__name__ for m in f.frozen(dtype=torch.float16).net.modules()}


def test_a_net_of_joined_kernels_keeps_the_usual_layout_in_float32() -> None:
    joined = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
    single = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 1), torch.nn.Flatten(), torch.nn.Linear(8 * 64, 4))
    layouts = {}
    for name, net in (("joined", joined), ("single", single)):
        f = pm.Classifier(net, size=8, device="cuda")
        layouts[name] = [f.frozen(dtype=t).net.layout for t in (torch.float32, torch.float16)]  # type: ignore[union-attr]
    assert layouts["joined"] == [torch.contiguous_format, torch.channels_last]
    assert layouts["single"] == [torch.channels_last, torch.channels_last]
