"""Rules for labels: what people write, and the same choice made by a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, LabelRule, check_labels, label_index
from tests.toys import pixels

NAMES = ["tench", "tiger cat", "Egyptian_cat", "Great white shark, white shark", "crane", "crane", "cup"]
F = torch.tensor([[0.05, 0.40, 0.30, 0.10, 0.05, 0.06, 0.04], [0.01, 0.01, 0.01, 0.90, 0.05, 0.01, 0.01]])


def choose(rule: Any, f: Tensor = F, label_set: list[int] | None = None) -> list[list[int]]:
    members = range(f.shape[1]) if label_set is None else label_set
    return LabelRule.parse(rule, NAMES).choose(f, members).tolist()


# ---- one label ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label, index",
    [
        (0, 0),
        ("6", 6),
        (" 6 ", 6),
        ("+2", 2),
        ("tiger cat", 1),
        ("Tiger_Cat", 1),
        ("  TIGER   cat ", 1),
        ("egyptian cat", 2),
        ("great white shark, white shark", 3),
    ],
)
def test_a_label_is_an_index_or_a_name_however_it_is_spelt(label: int | str, index: int) -> None:
    assert label_index(label, NAMES) == index


@pytest.mark.parametrize("label", [7, -1, "7", "-1", 10**12])
def test_an_index_out_of_range_is_refused_with_the_range(label: int | str) -> None:
    with pytest.raises(InputError, match="is out of range: the net has outputs 0 to 6"):
        label_index(label, NAMES)


def test_a_number_that_is_the_name_of_another_output_is_refused() -> None:
    digits = ["2", "1", "0"]
    assert label_index("1", digits) == 1  # name and index agree
    assert label_index(2, digits) == 2  # an integer is an index
    with pytest.raises(InputError, match="'2' is the name of output 0 and the index of another; pass 0"):
        label_index("2", digits)


@pytest.mark.parametrize(
    "name, told",
    [
        ("crane", r"'crane' names 2 outputs \(4, 5\); give the index"),
        ("tigger cat", r"no label is named 'tigger cat'\. Did you mean 'tiger cat'"),
        ("zzz", r"'zzz'\. Labels are named as 'tench' and 'tiger cat' are, or by .* 0 to 6"),
    ],
)
def test_a_name_of_no_single_output_is_refused_with_what_was_probably_meant(name: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        label_index(name, NAMES)


@pytest.mark.parametrize(
    "wanted, suggested",
    [
        ("cat", "'tiger cat', 'Egyptian_cat'"),  # whole words
        ("White Shark", "'Great white shark, white shark'"),
        ("cata", "'catamaran'"),  # the beginning of a word
        ("oyster", "'oystercatcher'"),
        ("cap", "'cup', 'tiger cat'"),  # spelt alike
        ("tenchs", "'tench'"),
        ("Egyptians", "'Egyptian_cat'"),
    ],
)
def test_whole_words_are_suggested_before_beginnings_and_beginnings_before_letters(
    wanted: str, suggested: str
) -> None:
    names = ["oystercatcher", "catamaran", *NAMES]
    with pytest.raises(InputError) as told:
        label_index(wanted, names)
    assert str(told.value).endswith(f"Did you mean {suggested}?")


# ---- rules ----------------------------------------------------------------------------------------------------


def test_the_top_label_is_there_even_if_it_is_not_probable() -> None:
    assert choose("p>=0.95") == [[1], [3]]
    assert choose("p>=1") == [[1], [3]]


def test_a_name_with_a_comma_is_one_label() -> None:
    assert choose("Great white shark, white shark") == [[3], [3]]
    assert choose("cup, 1,") == [[6, 1], [6, 1]]
    assert choose(["cup", "Great white shark, white shark"]) == [[6, 3], [6, 3]]


def test_rules_look_only_at_the_label_set() -> None:
    assert choose("all", label_set=[0, 3, 5]) == [[3, 5, 0], [3, 0, 5]]
    assert choose("top1", label_set=[0, 5]) == [[5], [0]]
    assert choose("p>=0.06", label_set=[0, 5, 6]) == [[5], [0]]


@pytest.mark.parametrize(
    "rule, message",
    [
        ("top0", "ask for top labels, at least one"),
        ("p>=1.5", "between 0 and 1"),
        ("p>=1e", "between 0 and 1"),
        ("p>=-0.1", "between 0 and 1"),
        ("", "no label is named ''"),
        (" , ", "labels is an empty list; name at least one"),
        ("0,1,1,2", r"label 1 \(tiger cat\) is given more than once in labels; give each label once"),
        ("cup,1,6", r"label 6 \(cup\) is given more than once"),
        ([6, "cup"], r"label 6 \(cup\) is given more than once"),
        ([], "empty list"),
        ("best", "no label is named 'best'"),
        ("cup,zebra", "no label is named 'zebra'"),
        ("cup,99", "out of range"),
        ("cup,crane", "names 2 outputs"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(rule: str | list[int | str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LabelRule.parse(rule, NAMES)


@pytest.mark.parametrize(
    "labels",
    [
        1,
        np.int64(1),
        "1",
        np.str_("tiger cat"),
        torch.tensor(1),
        np.array(1),
        [np.int64(1)],
        [torch.tensor(1)],
        torch.tensor([1]),
        np.array([1], dtype=np.uint8),
        np.array(["tiger cat"]),
    ],
    ids=repr,
)
def test_one_label_in_any_form_is_the_label_of_every_image(labels: Any) -> None:
    assert LabelRule.parse(labels, NAMES) == LabelRule.parse([1], NAMES)
    assert choose(labels) == [[1], [1]]


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([0, 6]),
        torch.tensor([0, 6], dtype=torch.uint8),
        np.array([0, 6]),
        np.array([0, 6], dtype=np.uint16),
        np.array(["tench", "cup"]),
        np.array([0, "cup"], dtype=object),
        [[0], ["cup"]],
        [torch.tensor([0]), [6]],
    ],
    ids=repr,
)
def test_a_tensor_of_one_dimension_has_one_label_per_image_as_captum_reads_it(labels: Any) -> None:
    assert choose(labels) == [[0], [6]]
    with pytest.raises(InputError, match=r"labels has 2 rows for 1 image; .* pass a list: \[0, 6\]"):
        choose(labels, F[:1])


@pytest.mark.parametrize(
    "labels",
    [torch.tensor([[0, 6], [3, -1]]), np.array([[0, 6], [3, -1]], dtype=np.int8), [["tench", 6], [3]]],
    ids=repr,
)
def test_two_dimensions_are_the_labels_of_each_image(labels: Any) -> None:
    assert choose(labels) == [[0, 6], [3, NO_LABEL]]
    assert str(LabelRule.parse(labels, NAMES)) == "given"


@pytest.mark.parametrize(
    "labels, message",
    [
        (True, "a label is an index .* or a name, not True"),
        (1.0, "labels must be a rule such as 'top5', .* not a float"),
        (None, "not a NoneType"),
        ({0, 1}, "not a set"),
        ([1.0], "a label is an index .* or a name, not 1.0"),
        ([True, False], "not True"),
        (torch.tensor([0.0, 1.0]), "not 0.0"),
        (torch.tensor([[True], [False]]), "not True"),
        (-1, "label -1 is out of range: the net has outputs 0 to 6"),
        (torch.tensor([0, -1]), "label -1 is out of range"),
        (torch.tensor([0, 7]), "label 7 is out of range"),
        (np.zeros((0,), int), r"labels has the shape \(0,\)"),
        (torch.zeros(2, 0, dtype=torch.int64), r"labels has the shape \(2, 0\)"),
        (torch.zeros(2, 1, 1, dtype=torch.int64), r"labels has the shape \(2, 1, 1\)"),
        ([[0], []], "labels has no label for image 1"),
        (torch.tensor([[0], [-1]]), "labels has no label for image 1"),
        ([[0, 1, 0], [2]], r"label 0 \(tench\) is given more than once"),
        ([[0], 1], "a label is an index .* or a name, not \\[0\\]"),
    ],
    ids=repr,
)
def test_what_means_no_labels_is_refused_with_a_sentence(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LabelRule.parse(labels, NAMES)


# ---- against a plain loop -------------------------------------------------------------------------------------

rows = st.lists(st.integers(0, 9), min_size=5, max_size=5).filter(any)
tables = st.lists(rows, min_size=1, max_size=4).map(
    lambda r: torch.tensor(r, dtype=torch.float32) / torch.tensor(r).sum(dim=1, keepdim=True)
)
members = st.sets(st.integers(0, 4), min_size=1).map(sorted)
rules = st.one_of(
    st.just("all"),
    st.integers(1, 7).map("top{}".format),
    st.floats(0, 1, width=32).map("p>={}".format),
)


def chosen_by_a_loop(rule: str, f: list[float], members: list[int]) -> list[int]:
    order = sorted(members, key=lambda a: (-f[a], a))
    if rule.startswith("top"):
        return order[: int(rule[3:])]
    if rule.startswith("p>="):
        return [a for place, a in enumerate(order) if place == 0 or f[a] >= float(rule[3:])]
    return order


@given(f=tables, members=members, rule=rules)
def test_every_rule_chooses_what_a_plain_loop_chooses(f: Tensor, members: list[int], rule: str) -> None:
    labels = LabelRule.parse(rule, "abcde").choose(f, members)
    expected = [chosen_by_a_loop(rule, row, members) for row in f.tolist()]
    longest = max(map(len, expected))
    assert labels.tolist() == [row + [NO_LABEL] * (longest - len(row)) for row in expected]
    assert torch.equal(check_labels(labels, len(f), 5), labels)


@given(rule=st.one_of(rules, st.lists(st.integers(0, 4), min_size=1, unique=True)))
def test_a_rule_reads_back_what_it_prints(rule: str | list[int]) -> None:
    parsed = LabelRule.parse(rule, "abcde")
    assert LabelRule.parse(str(parsed), "abcde") == parsed


@given(names=st.lists(st.text("ab_ X", min_size=1), min_size=1, max_size=6), data=st.data())
def test_a_name_finds_its_output_unless_another_is_spelt_alike(names: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(names) - 1))
    alike = [i for i, n in enumerate(names) if n.lower().replace("_", " ").split() == _words(names[place])]
    if len(alike) == 1:
        assert label_index(names[place], names) == place
    else:
        with pytest.raises(InputError, match="give the index"):
            label_index(names[place], names)


def _words(name: str) -> list[str]:
    return name.lower().replace("_", " ").split()


# ---- a tensor of labels ---------------------------------------------------------------------------------------


def test_labels_outside_the_label_set_are_refused() -> None:
    labels = torch.tensor([[0, 2], [2, NO_LABEL]])
    assert torch.equal(check_labels(labels, 2, 3, [0, 2]), labels)
    with pytest.raises(InputError, match="label 2 is not in the classifier's label set"):
        check_labels(labels, 2, 3, [0, 1])


@pytest.mark.parametrize(
    "labels, message",
    [
        (torch.tensor([0, 1]), r"\(N, L\) with N = 2, got torch.int64 \(2,\)"),
        (torch.tensor([[0]]), r"N = 2, got torch.int64 \(1, 1\)"),
        (torch.zeros(2, 0, dtype=torch.int64), r"got torch.int64 \(2, 0\)"),
        (torch.zeros(2, 1), "must be integers .* got torch.float32"),
        (torch.tensor([[0], [3]]), r"0 \.\. 2 .*got 0 \.\. 3"),
        (torch.tensor([[0], [-2]]), r"got -2 \.\. 0"),
        (torch.tensor([[0, 1], [NO_LABEL, 1]]), "every image needs a label in the first column"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_labels(labels, 2, 3)


@pytest.mark.parametrize(
    "rule", ["all", " top2", "top-3", "p>=0.1", "p > 1e-05", "tench", "0,1", "topaz", "pear"]
)
def test_a_rule_is_by_probability_exactly_where_it_is_no_list(rule: str) -> None:
    parsed = LabelRule.parse(rule, [*NAMES, "topaz", "pear"])
    assert (
        LabelRule.is_by_probability(rule)
        == (parsed.kind != "list")
        == LabelRule.is_by_probability(str(parsed))
    )


def _sure(n: int, outputs: int, believed: int, seed: int = 0) -> torch.Tensor:
    """Probabilities of ``n`` images: ``believed`` labels have .02 or more, all others less than .01, in a random order."""
    generator = torch.Generator().manual_seed(seed)
    f = torch.rand(n, outputs, generator=generator) * 0.001
    for row in f:
        row[torch.randperm(outputs, generator=generator)[:believed]] += 0.02
    return f


@pytest.mark.parametrize("believed", [1, 2, 6])
def test_wrong_labels_are_near_and_far_and_the_net_does_not_believe_them(believed: int) -> None:
    f, images = _sure(40, 30, believed), pixels(40, 4)
    chosen = LabelRule.parse("top2+wrong", [str(k) for k in range(30)]).choose(f, range(30), images=images)
    near_places, far_places = set(), set()
    for row, labels in zip(f.tolist(), chosen.tolist(), strict=True):
        order = sorted(range(30), key=lambda a: -row[a])
        assert labels[:2] == order[:2]
        unbelieved = [a for a in order[2:] if row[a] < 0.01]
        near, far = labels[2:]
        near_places.add(unbelieved.index(near))
        far_places.add(unbelieved.index(far) - (len(unbelieved) + 1) // 2)
    size = 30 - max(2, believed)
    assert near_places <= set(range(min(10, (size + 1) // 2))) and len(near_places) > 4
    assert far_places <= set(range(size // 2)) and len(far_places) > 4


def test_wrong_labels_go_by_image_and_seed_not_by_batch() -> None:
    f, images = _sure(6, 50, 3), pixels(6, 4)
    rule = LabelRule.parse("top3+wrong", [str(k) for k in range(50)])
    whole = rule.choose(f, range(50), images=images)
    parts = [rule.choose(f[i : i + 1], range(50), images=images[i : i + 1]) for i in range(6)]
    assert (torch.cat(parts) == whole).all()
    other = rule.choose(f, range(50), images=images, seed=1)
    assert (other[:, :3] == whole[:, :3]).all() and (other[:, 3:] != whole[:, 3:]).any()


def test_wrong_labels_are_left_out_if_the_net_believes_the_rest() -> None:
    names, images = [str(k) for k in range(4)], pixels(2, 4)
    rule = LabelRule.parse("top2+wrong", names)
    f = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.6, 0.39, 0.009, 0.001]])
    chosen = rule.choose(f, range(4), images=images).tolist()
    assert chosen == [[0, 1, -1, -1], [0, 1, 2, 3]]
    assert rule.choose(f[:1], range(4), images=images[:1]).tolist() == [[0, 1]]
    assert rule.choose(f[1:], (0, 1, 3), images=images[1:]).tolist() == [[0, 1, 3]]
