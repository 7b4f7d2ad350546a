"""Plug-ins from what a person writes: names, settings, files, tables, functions."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.fills import FILLS, Blur, Fill, Gray, Images
from proofmap.methods import METHODS, LearnedMask, Method, make_method
from proofmap.methods.controls import Random, TopLabel
from proofmap.methods.from_function import FromFunction
from proofmap.metrics import Insertion, make_game, make_metric
from proofmap.metrics.areas import Deletion
from proofmap.metrics.proof_scores import Completeness, Soundness
from proofmap.plugins.settings import setting, settings_of
from proofmap.plugins.specs import make_plugin, split_specs, with_files_in
from proofmap.session import Session
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


def test_only_methods_are_made_from_functions() -> None:
    made = make_method(lambda classifier, images, labels: torch.zeros(1))
    assert isinstance(made, FromFunction)
    with pytest.raises(InputError, match="a fill is a name, a Fill, not function"):
        make_plugin(FILLS, Fill, lambda images, keys: images)


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


def test_a_colon_between_settings_is_refused_with_a_comma() -> None:
    with pytest.raises(InputError, match="'3:per_label=true'; settings are separated by commas"):
        make_method("random:seed_offset=3:per_label=true")
