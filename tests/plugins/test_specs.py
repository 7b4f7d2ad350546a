"""Plug-ins from what a person writes: names, settings, files, tables, functions."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import MISSING, FrozenInstanceError, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core import registry as module
from proofmap.core.errors import InputError, MissingExtra, require
from proofmap.core.registry import Registry
from proofmap.fills import FILLS, Blur, Fill, Gray, Images
from proofmap.methods import METHODS, LearnedMask, Method, make_method
from proofmap.methods.controls import Random, TopLabel
from proofmap.metrics import METRICS, Insertion, make_game, make_metric
from proofmap.metrics.areas import Deletion
from proofmap.metrics.proof_scores import Completeness, Soundness
from proofmap.plugins.python_file import from_python_file
from proofmap.plugins.settings import presets_of, setting, settings_of
from proofmap.plugins.specs import split_specs, with_files_in
from proofmap.session import Session
from tests.command import run
from tests.toys import conv_classifier, pixels

MINE = """
from typing import ClassVar
from proofmap.fills import Fill
from proofmap.methods.controls import Random

class Shifted(Fill):
    name: ClassVar[str] = "shifted-in-a-file"
    description: ClassVar[str] = "the image itself, moved sideways"
    by: int = 8
    up: int = 0

    def backgrounds(self, session, images, keys):
        return images.roll((self.up, self.by), dims=(-2, -1))

def bright(classifier, images, labels):
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

ready = Random(seed_offset=9)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


# ---- text, tables, objects ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec, method",
    [
        ("random", Random()),
        (" random : seed_offset = 3 ", Random(seed_offset=3)),
        ("random(seed_offset=3,per_label=true)", Random(seed_offset=3, per_label=True)),
        ({"method": "random", "seed_offset": 3}, Random(seed_offset=3)),
        ({"method": "random:per_label=true", "seed_offset": 3}, Random(seed_offset=3, per_label=True)),
        ({"method": Random(seed_offset=3)}, Random(seed_offset=3)),
        ("top-label:learned-mask:fill=blur(sigma=3,kernel=5),tv=0", TopLabel(of=LearnedMask(fill=Blur(sigma=3, kernel=5), tv=0))),
        ("top-label(of=random(seed_offset=3))", TopLabel(of=Random(seed_offset=3))),
        ("top-label:of=random", TopLabel(of=Random())),
        ({"method": "top-label", "of": {"method": "random", "seed_offset": 3}}, TopLabel(of=Random(seed_offset=3))),
        ({"method": "learned-mask", "fill": {"fill": "blur", "sigma": 3}}, LearnedMask(fill=Blur(sigma=3))),
        ("learned-mask:fill=images:a/b", LearnedMask(fill=Images(source="a/b"))),
        ("learned-mask:preset=paper,steps=3", LearnedMask.preset("paper", steps=3)),
        (TopLabel(of=Random()), TopLabel(of=Random())),
    ],
    ids=str,
)  # fmt: skip
def test_a_method_is_what_its_spec_says(spec: Any, method: Method) -> None:
    assert make_method(spec) == method


@pytest.mark.parametrize(
    "spec, told",
    [
        ("grad-cm", r"no method is named 'grad-cm'\. Did you mean 'grad-cam'"),
        ("zzz", r"no method is named 'zzz'\. Known are: .*, and \d+ more; proofmap list methods lists them"),
        (
            "random:seed_ofset=3",
            r"method 'random' has no setting 'seed_ofset'\. Did you mean 'seed_offset'\?",
        ),
        ({"seed_offset": 3}, r'a method\'s table needs method = "NAME"; there is only seed_offset'),
        ({}, "there is only nothing"),
        ({"method": Random(), "seed_offset": 3}, "in a table with settings, the method is given by its name"),
        ({"method": "random", "seed": 3}, "method 'random' has no setting 'seed'"),
        ({"method": "random", "seed_offset": "3"}, "seed_offset must be a whole number, not '3'"),
        (Gray, r"Gray is not a class of methods .*pass an instance, Gray\(\.\.\.\)"),
        (3, "a method is a name, a Method or a function, not int"),
        (None, "a method is a name, a Method or a function, not NoneType"),
        ("random:seed_offset=3:per_label=true", "'3:per_label=true'; settings are separated by commas"),
    ],
    ids=str,
)
def test_what_is_no_method_is_told(spec: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        make_method(spec)


def test_a_class_needs_no_decorator_and_may_be_handed_over() -> None:
    class Power(Method):
        """The brighter, the more salient."""

        name = "power"
        label_free = True
        power: float = setting(1.0, "exponent", above=0)
        channels: Literal["mean", "sum"] = setting("mean", "how channels are merged")

        def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
            return session.inputs.merged_channels(images, self.channels)[:, None] ** self.power

    assert make_method(Power) == Power() == Power(power=1) != Power(power=2)
    assert Power(power=2, channels="sum").title() == "power:power=2,channels=sum"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'power'"):
        Power().power = 3.0  # type: ignore[misc]
    with pytest.raises(InputError, match="power must be positive"):
        Power(power=0)

    class Brighter(Power):
        other: int = setting(1, "another", most=2)

    assert [info.name for info in settings_of(Brighter)] == ["power", "channels", "other"]
    with pytest.raises(InputError, match="other must be at most 2"):
        Brighter(other=3)
    f, x = conv_classifier(8), pixels(2, 8)
    found = pm.evaluate(f, x, methods=[Power, Power(power=2)], metrics=["insertion:points=4"])
    assert torch.equal(found["power:power=2"].maps, found["power"].maps ** 2)

    class Nameless(Method):
        pass

    with pytest.raises(InputError, match="the class Nameless has no name"):
        make_method(Nameless)


# ---- defaults -------------------------------------------------------------------------------------------------------


def test_defaults_are_taken_where_the_spec_does_not_say_otherwise() -> None:
    usual = {"thresholds": "released", "curve": "rise", "nobody": "knows"}
    assert make_metric("soundness", usual) == Soundness(e2=0.1, fill=Blur(), points=28, rule="trapezoid")
    assert make_metric("soundness:e2=0.5,points=4", usual) == Soundness(
        e2=0.5, fill=Blur(), points=4, rule="trapezoid"
    )
    assert make_metric("deletion", usual) == Deletion(points=28, rule="trapezoid")
    assert make_metric("insertion:curve=released", usual) == Insertion(points=28, rule="right"), (
        "not on a blur"
    )
    assert make_metric(Soundness(), usual) == Soundness(), "an object is as it is"


def test_a_shortcut_of_the_spec_wins_over_a_default_in_particular() -> None:
    usual = {"e1": 0.5, "points": 16}
    assert make_metric("completeness", usual) == Completeness(e1=0.5, points=16)
    made = make_metric("completeness:thresholds=released,curve=released", usual)
    assert made == Completeness(e1=0.1, points=28, rule="right")
    assert make_metric({"metric": "completeness", "curve": "released"}, usual).settings()["points"] == 28


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_fill_of_a_file_is_named_wherever_a_fill_is(mine: Path) -> None:
    for spec in (
        f"{mine}:Shifted:by=3,up=1",
        f"{mine}:Shifted(by=3,up=1)",
        {"fill": f"{mine}:Shifted", "by": 3, "up": 1},
    ):
        assert Fill.make(spec).settings() == {"fill": "shifted-in-a-file", "by": 3, "up": 1}  # fmt: skip
    game = make_game(f"insertion:fill={mine}:Shifted(by=3,up=1),points=4")
    assert game.points == 4 and game.fill == Fill.make(f"{mine}:Shifted:by=3,up=1")
    method = make_method(f"top-label:learned-mask:fill={mine}:Shifted,steps=2")
    assert method == TopLabel(of=LearnedMask(fill=Fill.make(f"{mine}:Shifted"), steps=2))


def test_an_object_of_a_file_is_taken_as_it_is(mine: Path) -> None:
    assert make_method(f"{mine}:ready") == Random(seed_offset=9)
    with pytest.raises(InputError, match=r"ready is not a class of methods, so it has no settings"):
        make_method(f"{mine}:ready:seed_offset=3")
    with pytest.raises(InputError, match=r"Shifted is not a class of methods \(a subclass of .*Method\)"):
        make_method(f"{mine}:Shifted")


@pytest.mark.parametrize(
    "spec, found",
    [
        ("random", "random"),
        ("mine.py:Mine", "/here/mine.py:Mine"),
        ("mine.py:Mine:power=2,of=x", "/here/mine.py:Mine:power=2,of=x"),
        ("mine.py:Mine(power=2)", "/here/mine.py:Mine(power=2)"),
        ("a folder/my file.py:Mine", "/here/a folder/my file.py:Mine"),
        ("top-label:mine.py:bright", "top-label:/here/mine.py:bright"),
        ("top-label:top-label:mine.py:Mine:power=2", "top-label:top-label:/here/mine.py:Mine:power=2"),
        ("learned-mask:fill=mine.py:Shifted,tv=0", "learned-mask:fill=/here/mine.py:Shifted,tv=0"),
        ("top-label:learned-mask:fill=mine.py:Shifted", "top-label:learned-mask:fill=/here/mine.py:Shifted"),
        ("mine.py:Mine:fill=other.py:Shifted(by=3)", "/here/mine.py:Mine:fill=/here/other.py:Shifted(by=3)"),
        ("learned-mask(fill=mine.py:Shifted,tv=0)", "learned-mask(fill=/here/mine.py:Shifted,tv=0)"),
        ("grad-cam:layer=a.py", "grad-cam:layer=a.py"),
        (
            {"method": "top-label", "of": "mine.py:bright", "name": "mine"},
            {"method": "top-label", "of": "/here/mine.py:bright", "name": "mine"},
        ),
        (
            {"method": "mine.py:Mine", "fill": {"fill": "mine.py:Shifted", "by": 3}},
            {"method": "/here/mine.py:Mine", "fill": {"fill": "/here/mine.py:Shifted", "by": 3}},
        ),
    ],
    ids=str,
)
def test_every_file_of_a_spec_is_found(spec: Any, found: Any) -> None:
    assert with_files_in(spec, lambda file: f"/here/{file}") == found


# ---- lists ----------------------------------------------------------------------------------------------------------


def test_lists_of_other_things_name_them() -> None:
    assert split_specs("insertion:fill=blur(sigma=3,kernel=5),points=4,deletion(points=3)", "metric") == [
        "insertion:fill=blur(sigma=3,kernel=5),points=4",
        "deletion(points=3)",
    ]
    with pytest.raises(InputError, match="no metric was named; see: proofmap list metrics"):
        split_specs("", "metric")
    with pytest.raises(InputError, match=r"'points=3' in 'points=3' is a setting without a metric before it"):
        split_specs("points=3", "metric")


def test_every_registered_name_can_be_written_alone_or_says_what_it_needs() -> None:
    for name in METHODS:
        if not METHODS[name].__module__.startswith("proofmap."):
            continue
        if any(info.default is MISSING for info in settings_of(METHODS[name])):
            with pytest.raises(InputError, match=f"^{name} needs .*, such as {name}:"):
                make_method(name)
        else:
            assert make_method(name).title() == name
    for name in ("gray", "blur", "noise", "images"):
        assert Fill.make(name).title() == name
    assert Gray().title() == "gray"


@pytest.mark.parametrize("spec", ["top-label:" * 300 + "random", "blurred:top-label:" * 10**4 + "random"])
def test_specs_inside_one_another_have_a_limit(spec: str) -> None:
    with pytest.raises(InputError, match="inside 16 others; at most 16 may be inside one another"):
        make_method(spec)
    table: object = "random"
    for _ in range(300):
        table = {"method": "top-label", "of": table}
    with pytest.raises(InputError, match="at most 16"):
        make_method(table)  # type: ignore[arg-type]
    assert make_method("top-label:" * 10 + "random").label_free


# ---- in files of a user --------------------------------------------------------------------------------------


IN_A_FILE = """
from typing import ClassVar
from beside import POWER
from proofmap.methods import METHODS, Method
from proofmap.metrics import Metric

def bright(classifier, images, labels):
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

@METHODS.register
class Brightness(Method):
    name: ClassVar[str] = "brightness-in-a-file"
    description: ClassVar[str] = "bright pixels"
    power: float = POWER
    label_free = True

    def maps(self, session, images, labels):
        return images.mean(dim=1, keepdim=True) ** self.power

class Mean(Metric):
    name: ClassVar[str] = "mean-in-a-file"
    higher_is_better: ClassVar[bool] = True
    description: ClassVar[str] = "mean of the image"
    times: float = 1.0

    def values(self, judged):
        return self.times * judged.images.mean(dim=(1, 2, 3))

NOTHING = 3
"""


@pytest.fixture
def my_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the user's; what it registers is forgotten afterwards."""
    monkeypatch.setattr(METHODS, "_known", {name: METHODS[name] for name in METHODS})
    (tmp_path / "beside.py").write_text("POWER = 2.0\n")
    (tmp_path / "mine.py").write_text(IN_A_FILE)
    return tmp_path / "mine.py"


def test_a_function_and_a_class_become_methods(my_file: Path) -> None:
    f, images = conv_classifier(8), pixels(2, 8)
    labels = torch.tensor([[0, 1], [2, 3]])
    bright = images.mean(dim=1, keepdim=True)
    function = pm.make_method(f"{my_file}:bright")
    assert torch.equal(function(f, images, labels), bright.expand(-1, 2, -1, -1))
    made = pm.make_method(f"{my_file}:Brightness:power=3")
    assert made.label_free and torch.equal(made(f, images, labels), (bright**3).expand(-1, 2, -1, -1))
    assert pm.make_method({"method": f"{my_file}:Brightness", "power": 3.0}) == made
    assert pm.make_method(f"top-label:{my_file}:bright").settings()["of"] == function.settings()
    assert split_specs(f"{my_file}:Brightness:power=3,{my_file}:bright,grad-cam") == [
        f"{my_file}:Brightness:power=3",
        f"{my_file}:bright",
        "grad-cam",
    ]


def test_a_class_becomes_a_metric(my_file: Path) -> None:
    metric = make_metric(f"{my_file}:Mean:times=2")
    assert (
        metric.settings() == {"times": 2} and make_metric({"metric": f"{my_file}:Mean", "times": 2}) == metric
    )
    images = pixels(3, 8)
    found = pm.evaluate(conv_classifier(8), images, methods=["random"], metrics=[metric])
    assert torch.allclose(found.results[0].values[metric.name], 2 * images.mean(dim=(1, 2, 3)))


@pytest.mark.parametrize(
    "make, spec, told",
    [
        (pm.make_method, "gone.py:bright", "no file 'gone.py'"),
        (pm.make_method, "{}", r"Write .*mine.py:NAME, .* bright, Brightness, Mean$"),
        (pm.make_method, "{}:dark", "has no 'dark'"),
        (pm.make_method, "{}:bright:power=2", "has no settings"),
        (pm.make_method, "{}:Brightness:glow=2", "no setting 'glow'"),
        (pm.make_method, "{}:NOTHING", "not int"),
        (make_metric, "{}:NOTHING", "a metric is a name, a Metric or a function, not int"),
    ],
)
def test_mistakes_are_told(my_file: Path, make: Any, spec: str, told: str) -> None:
    with pytest.raises(pm.InputError, match=told):
        make(spec.format(my_file))


def test_a_study_file_finds_methods_beside_it_and_notices_when_their_code_changes(my_file: Path) -> None:
    import numpy as np
    from PIL import Image

    (my_file.parent / "photos").mkdir()
    for k in range(3):
        Image.fromarray(np.full((8, 8, 3), 60 * k, dtype=np.uint8)).save(
            my_file.parent / "photos" / f"{k}.png"
        )
    study = my_file.parent / "study.toml"
    study.write_text(
        'data = "photos"\nlabels = "top2"\nmethods = ["mine.py:bright", "top-label:mine.py:bright"]\n'
        '[[metrics]]\nmetric = "mine.py:Mean"\ntimes = 2\n'
    )
    run = my_file.parent / "run"
    f = conv_classifier(8)
    assert pm.run_study(pm.Study.from_toml(study), run, classifier=f).complete
    with pm.Run(run) as opened:
        means = opened.evaluation().results[0].values["mean-in-a-file"]
    assert means.tolist() == pytest.approx([2 * 60 * k / 255 for k in range(3)])

    my_file.write_text(IN_A_FILE.replace("self.times * judged", "self.times + judged"))
    os.utime(my_file, ns=(2, 2))
    only_metric = replace(pm.Study.from_toml(study), methods=("random",))
    with pytest.raises(pm.InputError, match=r"metric 'mean-in-a-file'.* has other settings:\n  code: "):
        pm.run_study(only_metric, run, classifier=f)


def test_a_file_edited_within_a_second_is_never_taken_from_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytecode is known by the second and the size of its source: here both stay the same."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    my_file, beside = tmp_path / "mine_edited.py", tmp_path / "beside_edited.py"
    found = []
    for value in ("1", "2"):
        my_file.write_text(f"import beside_edited\nOWN = {value}\nBOTH = {value}, beside_edited.OTHER\n")
        beside.write_text(f"OTHER = {value}\n")
        for k, file in enumerate((my_file, beside)):
            os.utime(file, ns=(10**18 + int(value) + k, 10**18 + int(value) + k))
        sys.modules.pop("beside_edited", None)
        importlib.invalidate_caches()
        found.append(from_python_file(f"{my_file}:BOTH", "pair"))
    assert found == [(1, 1), (2, 2)]
    assert not (tmp_path / "__pycache__").exists() and not sys.dont_write_bytecode


REGISTERS = """
from proofmap.fills import FILLS, Fill
from proofmap.methods import METHODS, Method
from proofmap.metrics import METRICS, Metric

@METHODS.register
class Bright(Method):
    name = "bright-of-plugins"

    def maps(self, session, images, labels):
        return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

@METRICS.register
class Mean(Metric):
    name = "mean-of-plugins"
    higher_is_better = True

    def values(self, judged):
        return judged.images.mean(dim=(1, 2, 3))

@FILLS.register
class Moved(Fill):
    name = "moved-of-plugins"
    by: int = 1

    def backgrounds(self, session, images, keys):
        return images.roll(self.by, dims=-1)
"""


@pytest.mark.parametrize(
    "methods, metrics, fills",
    [
        ("{}:Bright", "mean-of-plugins", ""),
        ("bright-of-plugins", "insertion:fill=moved-of-plugins,{}:Mean", ""),
        ("bright-of-plugins", "insertion", "moved-of-plugins,{}:Moved:by=2"),
    ],
)
def test_names_that_a_file_registers_are_known_wherever_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: str, metrics: str, fills: str
) -> None:
    for registry in (METHODS, METRICS, FILLS):
        monkeypatch.setattr(registry, "_known", {name: registry[name] for name in registry})
    (tmp_path / "plugins.py").write_text(REGISTERS)
    monkeypatch.chdir(tmp_path)
    given = [text.format("plugins.py") for text in (methods, metrics, fills)]
    study = pm.Study(**{k: split_specs(v) if v else () for k, v in zip(("methods", "metrics", "fills"), given, strict=True)})  # fmt: skip
    assert study.named_metrics() and [m.name for m in study.named_methods().values()] == ["bright-of-plugins"]
    again = {"metrics": given[1], "methods": given[0], "fills": [*study.fills]}
    found = pm.evaluate(conv_classifier(8), pixels(1, 8), labels="top1", **again)
    assert [result.name for result in found.results] == ["bright-of-plugins"]


def test_list_shows_the_settings_of_a_class_in_a_file(
    my_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "list", "methods", f"{my_file}:Brightness") == 0
    assert "power=2 (a number)" in capsys.readouterr().out
    assert run(monkeypatch, "list", "methods", f"{my_file}:bright") == 2
    assert run(monkeypatch, "list", "methods", str(my_file)) == 2
    assert "bright, Brightness, Mean" in capsys.readouterr().err


# ---- names that are registered -------------------------------------------------------------------------------


class Cup:
    name = "cup"


class Saucer:
    name = "saucer"


class Point:
    """An entry point of another package."""

    dist = None

    def __init__(self, name: str, thing: Any) -> None:
        self.name, self.thing, self.loaded = name, thing, 0

    def load(self) -> Any:
        self.loaded += 1
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


def registry(monkeypatch: pytest.MonkeyPatch, *points: Point) -> Registry[Any]:
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == "mine" else ())
    things: Registry[Any] = Registry("thing", "mine")
    things.register(Cup)
    return things


def test_a_registered_class_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch)
    assert things["cup"] is Cup
    assert list(things) == ["cup"]
    assert "cup" in things
    assert "saucer" not in things


def test_other_packages_add_theirs_and_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point("anything", Saucer)
    things = registry(monkeypatch, point)
    assert point.loaded == 0  # not before something is looked up
    assert things["saucer"] is Saucer
    assert list(things) == ["cup", "saucer"]
    assert point.loaded == 1


def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch, Point("teapot", ImportError("no handle")))
    told = r"the thing 'teapot' of the installed package \? .*no handle"
    with pytest.warns(UserWarning, match=told):
        assert "cup" in things


def test_a_name_belongs_to_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch)
    things.register(Cup)  # the same again is no harm
    impostor = type("Impostor", (), {"name": "cup"})
    with pytest.raises(InputError, match="a thing named 'cup' is already registered"):
        things.register(impostor)
    assert things["cup"] is Cup


def test_a_preset_keeps_its_name_in_titles_and_is_read_as_it_is_written() -> None:
    named = [(kind, preset) for kind in map(METHODS.__getitem__, METHODS) for preset in presets_of(kind)]
    assert len(named) > 20
    for kind, preset in named:
        method = kind.preset(preset)
        assert make_method(method.title()) == method == make_method(f"{kind.name}:{preset}"), preset
    assert make_method("belief-mask:preset=steady").title() == "belief-mask:steady"
    several = split_specs("belief-mask:steady,pull=2,grad-cam")
    assert [make_method(spec).title() for spec in several] == ["belief-mask:steady,pull=2", "grad-cam"]


def test_an_unknown_name_is_refused_with_what_was_probably_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch, Point("s", Saucer))
    for name, told in (
        ("sauser", r"'sauser'\. Did you mean 'saucer'\?"),
        ("xyzzy", r"'xyzzy'\."),
        ("[" * 100_000, r"'\[{199}…'\."),
    ):
        with pytest.raises(InputError, match=rf"no thing is named {told} Known are: cup, saucer$"):
            things[name]


def test_an_optional_package_that_is_not_installed_names_the_extra() -> None:
    with pytest.raises(
        MissingExtra,
        match=r"figures needs the package 'no_such_package', and it is not installed.*proofmap\[figures\]",
    ):
        require("no_such_package.part", extra="figures", purpose="figures")


def test_an_optional_package_that_is_broken_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(MissingExtra, match="its import fails: operator torchvision::nms"):
        require("torchvision", extra="torchvision", purpose="this model")
