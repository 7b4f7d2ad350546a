"""Texts: positions divide them, padding never counts, and curves and scores equal those of a plain loop over strings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import proofmap as pm
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Text, TextInputs, inputs_of
from proofmap.fills import make_fill
from proofmap.metrics.playing import curves
from tests.sessions import bound
from tests.texts import ANY

TEXTS = [
    "Good, really good film.",
    "Bad.",
    "The plot is bad but the songs are good and the ending is great fun for everyone who likes songs",
    "Neither good nor bad: great!",
    "A long and boring evening.",
]
WEIGHTS = {"good": 1.0, "great": 1.5, "fun": 0.5, "bad": -1.2, "boring": -2.0, "[mask]": 0.1, "songs": 0.3}


def score(text: str) -> float:
    """A bag of words in which neighbours interact a little."""
    found = [WEIGHTS.get(word.strip(" .,:!").lower(), 0.0) for word in text.split()]
    return sum(found) + 0.2 * sum(a * b for a, b in itertools.pairwise(found))


def reviewer(texts: list[str]) -> list[list[float]]:
    """Three labels: bad, mixed, good."""
    rows = ([math.exp(k * score(text)) for k in (-1, 0, 1)] for text in texts)
    return [[p / sum(row) for p in row] for row in rows]


def net(length: int = 24, **settings: Any) -> pm.Classifier:
    inputs = Text(length=length, **settings)
    return pm.Classifier(reviewer, inputs=inputs, names=["bad", "mixed", "good"], batch_size=64)


# ---- what a position is -------------------------------------------------------------------------------------------


@given(st.text(ANY).filter(lambda text: text.strip()))
@pytest.mark.parametrize("units", ["words", "sentences"])
def test_positions_make_up_the_text(units: str, text: str) -> None:
    found = TextInputs.in_units(text, units)
    assert "".join(found) == text
    assert all(found)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_text_is_carried_to_the_letter(parts: list[str]) -> None:
    text = " ".join([*parts, "end"])
    inputs = Text(length=400)
    assert inputs.decode(inputs.encode([text])) == [text]


@pytest.mark.parametrize(
    "units, text, expected",
    [
        ("words", "Why not?  Yes", ["Why", "not?", "Yes"]),
        ("words", "東京は晴れ。Hello 世界", ["東", "京", "は", "晴", "れ。", "Hello", "世", "界"]),
        ("words", "שלום עולם", ["שלום", "עולם"]),
        ("sentences", "One. Two! 三。四", ["One.", "Two!", "三。", "四"]),
    ],
)
def test_words_and_sentences(units: Any, text: str, expected: list[str]) -> None:
    inputs = Text(length=10, units=units)
    x = inputs.encode(text)[0]
    assert [inputs.value_text(x, k) for k in range(len(expected))] == expected
    assert int(inputs.lengths(x[None])) == len(expected)


def test_a_long_word_is_several_positions() -> None:
    inputs = Text(length=10, width=8)
    found = inputs.words(inputs.encode("see https://example.org now")[0])
    assert found == ["see ", "https://", "example.", "org ", "now"]


def test_records_describe_texts() -> None:
    inputs = Text(length=9, units="sentences", mask_token="#", longer="cut")
    assert inputs_of(inputs.record()) == inputs
    assert inputs.at_length(4).record() == inputs.record()


def test_own_positions_must_make_up_the_text() -> None:
    inputs = Text(
        length=9, units="tokens", split=lambda text: [text[k : k + 2] for k in range(0, len(text), 2)]
    )
    assert inputs.words(inputs.encode("abcde")[0]) == ["ab", "cd", "e"]
    with pytest.raises(InputError, match="split must divide the whole text"):
        Text(length=9, split=str.split).encode("a b")
    with pytest.raises(InputError, match="tokens of black-box texts need split="):
        Text(length=9, units="tokens").encode("a b")


# ---- fills --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fill, expected",
    [
        ("gray", "Good, film."),
        ("delete", "Good, film."),
        ("mask", "Good, [MASK] [MASK] film."),
        ("unknown", "Good, [UNK] [UNK] film."),
    ],
)
def test_what_hidden_words_show(fill: str, expected: str) -> None:
    f = net()
    x = f.inputs.encode(TEXTS[:1])
    hidden = bound(make_fill(fill), f)(x, torch.zeros(1, dtype=torch.int64))
    keep = torch.tensor([[k in (0, 3) for k in range(24)]])
    assert f.inputs.decode(f.inputs.composite(keep, x, hidden)) == [expected]


def test_words_of_another_text_are_repeated_and_keep_the_gaps() -> None:
    inputs = Text(length=24)
    x, other = inputs.encode("a b\nc d, e"), inputs.encode("Yes No.")
    near = inputs.at_length(5)
    assert near.decode(near.of_others(inputs.cut(x, 5), other)) == ["Yes No.\nYes No. Yes"]


# ---- curves and scores --------------------------------------------------------------------------------------------


def looped(
    f: Callable[[list[str]], Any], text: str, heat: Sequence[float], label: int, mask: str
) -> tuple[float, list[float]]:
    """The insertion area and curve of a text by a loop over strings: the mean over s = 1 .. n of f with the top s words shown."""
    found = re.findall(r"\S+\s*", text)
    order = sorted(range(len(found)), key=lambda k: (-heat[k], k))
    curve = []
    for s in range(len(found) + 1):
        shown = set(order[:s])
        hidden = [mask and mask + re.findall(r"\s*$", word)[0] for word in found]
        kept = [word if k in shown else hidden[k] for k, word in enumerate(found)]
        curve.append(float(f(["".join(kept)])[0][label]))
    return sum(curve[1:]) / len(found), curve


@pytest.mark.parametrize("fill, mask", [("gray", ""), ("mask", "[MASK]")])
def test_curves_equal_a_loop_over_strings(fill: str, mask: str) -> None:
    f = net(40)
    x = f.inputs.encode(TEXTS)
    maps = torch.randn(len(TEXTS), 3, 40, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    labels = torch.tensor([[0, 1, 2]] * len(TEXTS))
    found = curves("insertion", f, x, maps, labels, fill=fill)
    for i, text in enumerate(TEXTS):
        for a in range(3):
            area, curve = looped(reviewer, text, maps[i, a].tolist(), a, mask)
            assert found.auc[i, a].item() == pytest.approx(area, abs=1e-6)
            n = len(curve) - 1
            shown = found.counts_of(n)  # words of this text at each point
            assert (shown > 0).equal(found.counts > 0) and (
                shown / n - found.counts / 40
            ).abs().max() <= 1 / n
            assert set(shown.tolist()) == set(range(n + 1))
            assert found.probabilities[i, a].tolist() == pytest.approx([curve[s] for s in shown], abs=1e-6)


METHODS = [
    "random",
    "occlusion",
    "occlusion:fill=mask",
    "belief-order:budget=200",
    "kernel-shap:samples=40",
    "shapley:orders=2",
    "rise:masks=20",
]


@pytest.fixture(scope="module")
def judged() -> pm.Evaluation:
    return evaluated(24, TEXTS)


def evaluated(length: int, texts: Sequence[str]) -> pm.Evaluation:
    return pm.evaluate(
        net(length),
        list(texts),
        methods=METHODS,
        metrics=["completeness", "soundness", "deletion", "insertion"],
        labels="all",
        fills=["gray", "mask"],
    )


def values_of(found: pm.Evaluation, image: int, text: str) -> str:
    """All that was found for one text, at its own positions."""
    own: list[object] = []
    n = len(text.split())
    for result in found.results:
        assert not result.maps[image, :, n:].any()
        own += [(result.name, name, values[image].item()) for name, values in result.values.items()]
        own += [result.maps[image, :, :n].tolist(), result.insertion.auc[image].tolist()]
    return repr(own)


def test_more_empty_positions_change_no_bit(judged: pm.Evaluation) -> None:
    more = evaluated(61, TEXTS)
    for i, text in enumerate(TEXTS):
        assert values_of(judged, i, text) == values_of(more, i, text)


@pytest.mark.parametrize("i", [0, 2])
def test_a_text_is_judged_alone_as_among_others(judged: pm.Evaluation, i: int) -> None:
    assert values_of(evaluated(24, [TEXTS[i]]), 0, TEXTS[i]) == values_of(judged, i, TEXTS[i])


def test_a_method_equals_a_loop_over_strings(judged: pm.Evaluation) -> None:
    occlusion = next(result for result in judged.results if result.name == "occlusion")
    for i, text in enumerate(TEXTS):
        found, whole = text.split(), reviewer([text])[0]
        without = [reviewer([" ".join(found[:k] + found[k + 1 :])])[0] for k in range(len(found))]
        lost = (torch.tensor(whole) - torch.tensor(without)).T[judged.labels[i]]
        assert torch.allclose(occlusion.maps[i, :, : len(found)], lost, atol=1e-6)


# ---- what people give ---------------------------------------------------------------------------------------------


def test_texts_are_given_as_strings_lists_and_columns() -> None:
    f = net()
    for texts in (
        TEXTS[0],
        TEXTS[:2],
        tuple(TEXTS[:2]),
        np.array(TEXTS[:2]),
        np.array(TEXTS[:2], dtype=object),
    ):
        proof = pm.explain(f, texts, labels="top1", method="occlusion")
        assert proof.evaluation.image_names[0] == "text-0"


def test_data_describes_texts() -> None:
    f = pm.Classifier(reviewer, data=TEXTS, names=["bad", "mixed", "good"])
    assert isinstance(f.inputs, Text) and f.inputs.length == 512 and len(f.inputs.pool) == 5
    assert Text.of([*TEXTS, "word " * 600]).length == 600 and Text.of(TEXTS, length=30).length == 30
    assert Text().length == 512 and Text(units="sentences").length == 64
    found = pm.evaluate(
        f, TEXTS[:1], methods=["occlusion"], metrics=["insertion:fill=images,draws=2"], labels="top1"
    )
    assert re.match("[2-5] of the texts", str(found.results[0].insertion.settings["pool"]))


@pytest.fixture(scope="module")
def pipeline() -> Any:
    """A model of scikit-learn, which learned from the texts."""
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="scikit-learn is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    truth = ["good", "bad", "good", "good", "bad"]
    return make_pipeline(text.TfidfVectorizer(), LogisticRegression()).fit(TEXTS, truth)


def test_a_file_of_a_scikit_learn_pipeline_of_texts_is_explained(pipeline: Any, tmp_path: Path) -> None:
    import joblib
    from sklearn.linear_model import LogisticRegression

    joblib.dump(pipeline, tmp_path / "m.joblib")
    spec = f"sklearn:{tmp_path / 'm.joblib'}?pickle=true"
    f = pm.load_classifier(spec)
    assert isinstance(f.inputs, Text) and f.inputs.length == 512 and f.names == ("bad", "good")
    x = f.inputs.encode(TEXTS)
    assert torch.allclose(f.probabilities(x).double(), torch.tensor(pipeline.predict_proba(TEXTS)), atol=1e-6)
    letters = pm.load_classifier(f"{spec}&units=sentences&length=30&longer=cut").inputs
    assert isinstance(letters, Text) and (letters.units, letters.length, letters.longer) == (
        "sentences",
        30,
        "cut",
    )
    sampled = pm.load_classifier(spec, data=["a good film", "bad"]).inputs
    assert isinstance(sampled, Text) and sampled.pool == ("a good film", "bad")
    table = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    joblib.dump(table, tmp_path / "table.joblib")
    with pytest.raises(InputError, match="is a model of tables, without length"):
        pm.load_classifier(f"sklearn:{tmp_path / 'table.joblib'}?pickle=true&length=30")
    with pytest.raises(InputError, match="is a model of tables, and the data are texts"):
        pm.load_classifier(f"sklearn:{tmp_path / 'table.joblib'}?pickle=true", data=TEXTS)


@pytest.mark.parametrize(
    "texts, reason",
    [
        (["ok", ""], "text 1 is empty"),
        (["ok", " \n"], "text 1 is empty"),
        (["ok", None], "text 1 must be a string, not NoneType"),
        (["word " * 100_000], "text 0 has 100,000 words, and at most 24 are taken"),
        ([b"caf\xe9"], "text 0 has bytes that are not UTF-8, from byte 3 on"),
        (["a\0b"], "text 0 has the character .*NUL"),
        (["a\ud800b"], "text 0 has the character .*surrogate pair"),
    ],
)
def test_bad_texts_are_refused(texts: list[object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        pm.explain(net(), texts, labels="all", method="occlusion")  # type: ignore[arg-type]


def test_a_text_of_one_word_is_judged_and_its_scores_are_one() -> None:
    proof = pm.explain(net(), ["Bad."], labels="all", method=["belief-order", "occlusion", "random"])
    assert len(proof.methods) == 3
    found = pm.evaluate(net(), ["Bad.", "A bad end."], methods=["random"], labels="all")
    assert found["random"].values["soundness"][0] == found["random"].values["completeness"][0] == 1


def test_every_score_of_a_linear_model_of_languages_is_exact() -> None:
    """py3langid is linear in log(1 + n-gram counts): curves, completeness and soundness by hand, from its weights."""
    langid = pytest.importorskip("py3langid.langid", reason="py3langid is not installed")
    model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    chosen = [list(model.nb_classes).index(name) for name in ("en", "de", "fr")]

    def languages(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            visits = langid.visit_counts(
                model.tk_nextmove, model._rowbase, model.tk_output, model._encode(text)
            )
            total = np.zeros(3)
            for feature, count in (visits or {}).items():
                total += math.log1p(count) * model.nb_ptc[feature][chosen].astype(float)
            rows.append(np.exp(total - total.max()) / np.exp(total - total.max()).sum())
        return np.array(rows)

    texts = ["The cat sat und dann schlief die Katze.", "Le chat dort on the old chair near the door."]
    f = pm.Classifier(languages, inputs=Text(length=16), names=["en", "de", "fr"])
    found = pm.evaluate(
        f, texts, methods=["occlusion", "belief-order"], metrics=["completeness", "soundness"], labels="all"
    )
    for result in found.results:
        for i, text in enumerate(texts):
            whole = languages([text])[0]
            ratios = []
            for j, a in enumerate(found.labels[i].tolist()):
                area, _ = looped(languages, text, result.maps[i, j].tolist(), a, "")
                assert result.insertion.auc[i, j].item() == pytest.approx(area, rel=1e-5)
                ratios.append((area, whole[a]))
            complete, sound = (values[i].item() for values in result.values.values())
            assert complete == pytest.approx(min(min(max(area, 0.01) / p, 1) for area, p in ratios), abs=1e-5)
            assert sound == pytest.approx(min(min(max(p, 0.001) / area, 1) for area, p in ratios), abs=1e-5)


def test_a_model_that_fails_on_an_empty_text_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"fails on 2 texts: IndexError.*One of them is empty, as when all words are deleted"
    ):
        pm.Classifier(lambda texts: [[text[0] == "a", text[0] != "a"] for text in texts], inputs=Text())


def test_the_mean_of_a_region_hides_words_although_words_have_no_mean() -> None:
    found = pm.evaluate(
        net(), [TEXTS[3]], methods=["kernel-shap:fill=none,samples=64"], labels="top1", keep_maps=1
    )
    heat = found.map_of(found.results[0], 0, 0)
    assert found.label_names[int(found.labels[0, 0])] == "good" and int(heat.argmax()) == 4  # "great!"
