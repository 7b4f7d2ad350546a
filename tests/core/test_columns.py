"""The columns of a table: a frame becomes numbers and comes back unchanged, and what does not fit is named."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.inputs import Columns, Rows, inputs_of
from proofmap.core.tensors import NamedImages
from tests.lazily import Lazily

pd = Lazily("pandas")


def customers() -> pd.DataFrame:
    """Every kind of column that pandas has, with missing values where its type allows them."""
    return pd.DataFrame(
        {
            "age": [20, 30, 41],
            "income": [1.5, np.nan, 3.0],
            "city": ["Ulm", "Bonn", "Ulm"],
            "member": [True, False, True],
            "plan": pd.Categorical(["a", "b", "a"], categories=["b", "a", "c"], ordered=True),
            "rooms": pd.Categorical([3, None, 2], categories=[2, 3]),
            "children": pd.array([1, None, 2], dtype="Int64"),
            "note": pd.Series(["x", None, "y"], dtype=object),
            "asked": pd.Series([True, None, False], dtype=object),
            "paid": pd.array([True, None, False], dtype="boolean"),
            "height": np.array([1, 2, 3], dtype=np.float32),
        }
    )


def test_a_frame_of_pandas_comes_back_with_its_values_order_and_types() -> None:
    frame = customers()
    columns = Columns.of(frame)
    rows = columns.encode(frame)
    nan = float("nan")
    expected = [
        [20, 1.5, 1, 1, 1, 1, 1, 0, 1, 1, 1],
        [30, nan, 0, 0, 0, nan, nan, nan, nan, nan, 2],
        [41, 3.0, 1, 1, 1, 0, 2, 1, 0, 0, 3],
    ]
    torch.testing.assert_close(rows, torch.tensor(expected), equal_nan=True)
    pd.testing.assert_frame_equal(columns.decode(rows), frame)
    assert columns.decode(rows)["note"][1] is None  # scikit-learn's encoders tell None and NaN apart
    pd.testing.assert_frame_equal(columns.decode(rows[:1]), frame[:1])  # no value is missing in this row


def test_a_model_is_given_numbers_of_few_decimals_to_the_bit() -> None:
    """Rounded to float32, 0.7 is less than 0.7: a rule ``a >= 0.7`` would give another output than for the row itself."""
    frame = pd.DataFrame({"a": [0.1, 0.7, -3.3], "b": [1e-4, 12.345, np.nan], "c": [1 / 3, 2 / 3, 0.1]})
    columns = Columns.of(frame)
    back = columns.decode(columns.encode(frame))
    pd.testing.assert_frame_equal(back[["a", "b"]], frame[["a", "b"]], check_exact=True)
    assert back["c"].tolist() == frame["c"].astype(np.float32).astype(float).tolist()  # has no few decimals
    net = pm.Classifier(
        lambda table: np.where(table["a"] >= 0.7, 0.9, 0.2), data=frame, outputs="probability"
    )
    assert pm.evaluate(net, frame[:2], methods=["random"], labels=[1]).f[:, 0].tolist() == pytest.approx(
        [0.2, 0.9]
    )
    same = np.array([[0.7], [0.1]], dtype=np.float32)  # was not rounded: stays as it is
    assert Columns.of(same).decode(Columns.of(same).encode(same)).tolist() == same.astype(float).tolist()


def test_a_frame_of_polars_comes_back_with_its_values_order_and_types() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "age": polars.Series([1, None, 3], dtype=polars.Int8),
            "income": [1.5, None, 2.0],
            "city": ["Ulm", "Bonn", None],
            "member": [True, None, False],
            "plan": polars.Series(["p", "q", "p"], dtype=polars.Categorical),
            "size": polars.Series(["s", "l", "s"], dtype=polars.Enum(["s", "m", "l"])),
        }
    )
    columns = Columns.of(frame)
    back = columns.decode(columns.encode(frame))
    assert back.equals(frame) and back.schema == frame.schema
    with pytest.raises(InputError, match="'day' holds dates"):
        Columns.of(polars.DataFrame({"day": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(InputError, match="'things' has the type List"):
        Columns.of(polars.DataFrame({"things": [[1, 2]]}))


def test_columns_know_ranges_means_and_the_most_frequent_values() -> None:
    found = {column.name: column for column in Columns.of(customers()).columns}
    assert (found["income"].low, found["income"].high, found["income"].center) == (1.5, 3.0, 2.25)
    assert found["income"].spread == pytest.approx(0.75)
    assert found["age"].center == 30.0 and found["age"].whole  # the mean is 30.33
    assert found["city"].categories == ("Bonn", "Ulm") and found["city"].center == 1.0
    assert found["plan"].categories == ("b", "a", "c") and found["plan"].ordered
    assert [name for name, column in found.items() if column.missing] == [
        "income",
        "rooms",
        "children",
        "note",
        "asked",
        "paid",
    ]


def test_a_record_in_json_describes_the_same_rows() -> None:
    inputs = Rows.of(customers(), groups={"home": ["city", "rooms"]})
    assert inputs_of(json.loads(json.dumps(inputs.record()))) == inputs
    named = Rows(columns=2, mean=(0, 0), std=(1, 1), names=("a", "b"))
    assert inputs_of(json.loads(json.dumps(named.record()))) == named


def test_values_are_written_as_people_write_them() -> None:
    frame = customers()
    inputs = Rows.of(frame, groups={"home": ["city", "rooms"]})
    first, second = inputs.encode(frame)[:2]
    texts = dict(
        zip(inputs.position_names, (inputs.value_text(first, k) for k in range(inputs.count)), strict=True)
    )
    assert texts["age"] == "20" and texts["income"] == "1.5" and texts["member"] == "yes"
    assert texts["home"] == "city Ulm, rooms 3"
    assert inputs.value_text(second, inputs.position_names.index("paid")) == "missing"
    salaries = Columns.of([[31359.87], [0.00001]])
    assert [salaries.text(row, 0) for row in salaries.encode([[31359.87], [0.00001]])] == ["31360", "1e-05"]
    plain = Rows(columns=2, mean=(0, 0), std=(1, 1))
    assert plain.value_text(torch.tensor([1.25, 3.0]), 0) == "1.25"


# ---- groups -----------------------------------------------------------------------------------------------------


def one_hot() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "city_Ulm": [1, 0, 0, 0, 0],
            "age": [1.0, 2.0, 3.0, 4.0, 5.0],
            "city_Bonn": [0, 1, 1, 0, 0],
            "city_Köln": [0, 0, 0, 1, 1],
            "size_x": [0.5, 1.0, 0.0, 0.0, 0.0],
            "size_y": [0.5, 0.0, 1.0, 1.0, 1.0],
        }
    )


def test_a_one_hot_family_is_one_position_and_its_center_is_its_mode() -> None:
    columns = Columns.of(one_hot(), groups="one-hot")  # the sizes are shares, not one-hot
    assert columns.positions == (("city", (0, 2, 3)), ("age", (1,)), ("size_x", (4,)), ("size_y", (5,)))
    inputs = Rows.of(columns)
    assert inputs.positions == (4,) and inputs.shape == (6,)
    assert [inputs.neutral[k].item() for k in (0, 2, 3)] == [0.0, 1.0, 0.0]  # single modes would be all zero
    row = columns.encode(one_hot())[3]
    assert inputs.value_text(row, 0) == "Köln"


def test_a_group_is_shown_hidden_and_merged_as_a_whole() -> None:
    inputs = Rows.of(one_hot(), groups="one-hot")
    shown = torch.arange(6.0)
    kept = inputs.composite(torch.tensor([True, False, False, True]), shown, torch.full((6,), -1.0))
    assert kept.tolist() == [0.0, -1.0, 2.0, 3.0, -1.0, 5.0]
    values = torch.tensor([[1.0, 10.0, 2.0, -4.0, 20.0, 30.0]])
    assert inputs.merged_channels(values).tolist() == [[-1.0, 10.0, 20.0, 30.0]]
    assert inputs.merged_channels(values, "max").tolist() == [[2.0, 10.0, 20.0, 30.0]]
    assert inputs.merged_channels(values, "mean")[0, 0].item() == pytest.approx(-1 / 3)
    assert inputs.pixel_positions().unique().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "groups, message",
    [
        (
            {"a": ["age", "agee"]},
            "the column 'agee' of a group is .* not in the table. Did you mean 'age'",
        ),
        ({"a": ["age"], "b": ["age"]}, "the column 'age' of a group is in two groups"),
        ({"age": ["size_x"]}, "the group 'age' has no columns, or has the name of a column outside it"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns.of(one_hot(), groups=groups)


# ---- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda f: f.drop(columns="age"), "the table lacks the column 'age'.*The model takes age, income, city"),
        (lambda f: f.assign(churned=1), r"has the column 'churned', which the model does not take.*\['churned'\]"),
        (lambda f: f.assign(city="Uln"), "the category 'Uln'.*Known are Bonn, Ulm. Did you mean 'Ulm'"),
        (lambda f: f.assign(age=[1.0, 2.0, np.nan]), "'age' has no value in row 2"),
        (lambda f: f.assign(age=[1.0, 2.5, 3.0]), "'age' must hold whole numbers.*2.5"),
        (lambda f: f.assign(age=["1", "2", "3"]), "'age' must hold numbers.*got (str|object)"),
        (lambda f: f.assign(city=[1, 2, 3]), "'city' must hold text or categories.*got int64"),
        (lambda f: f.assign(member=[0, 1, 2]), "'member' is a boolean with the codes 0 to 1, got .0, 2."),
        (lambda f: f.assign(income=np.inf), "'income' has infinity"),
        (lambda f: f.assign(income=1e300), "too large for float32"),
        (lambda f: f.assign(age=2**24 + 1), r"16777217; above 2\*\*24 float32 is not exact"),
        (lambda f: f.iloc[0], "a table must be a data frame .* got Series"),
        (lambda f: f[["age"]].to_numpy(), "rows have 11 columns .*, got 1"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_the_columns_are_refused(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns.of(customers()).encode(change(customers()))


@pytest.mark.parametrize(
    "data, message",
    [
        (lambda: {"day": pd.to_datetime(["2020-01-01"])}, "'day' holds dates.*such as the year"),
        (lambda: {"day": [datetime.date(2020, 1, 1)]}, "'day' holds dates"),
        (lambda: {"month": pd.PeriodIndex(["2020-01"], freq="M")}, "'month' holds dates"),
        (lambda: {"mixed": pd.Series([1, "a"], dtype=object)}, "'mixed' holds int objects such as 1"),
        (lambda: {"flags": pd.Series([True, "a"], dtype=object)}, "'flags' holds bool objects such as True"),
        (
            lambda: {"bin": pd.Categorical([pd.Interval(0, 1)])},
            "categories of the type Interval.*convert them to text",
        ),
        (lambda: {"empty": [np.nan]}, "'empty' has no values: all are missing"),
        (lambda: {1: [2.0]}, "a column of the table is named 1, which is not text"),
        (lambda: {"a": []}, "the table has no rows"),
        (dict, "the columns of a table need different names"),
    ],
)
def test_frames_that_cannot_be_described_are_refused(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns.of(pd.DataFrame(data()))
    with pytest.raises(InputError, match="2 columns named 'a'"):
        Columns.of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize(
    "column, value", [("city", 2.0), ("city", 0.5), ("member", -1.0), ("age", float("nan"))]
)
def test_numbers_that_are_no_rows_are_refused_on_the_way_back(column: str, value: float) -> None:
    columns = Columns.of(customers())
    rows = columns.encode(customers())
    rows[0, columns.names.index(column)] = value
    with pytest.raises(InputError, match=f"'{column}'"):
        columns.decode(rows)
    with pytest.raises(InputError, match=f"'{column}'"):
        Rows.of(columns).check(rows)


def test_chosen_columns_come_in_the_order_of_the_model() -> None:
    columns = Columns.of(customers(), names=["city", "age"])
    assert columns.names == ("city", "age")
    with pytest.raises(InputError, match=r"no column 'agee'\. Did you mean 'age'"):
        Columns.of(customers(), names=["agee"])


# ---- the whole way ----------------------------------------------------------------------------------------------


def test_a_net_of_a_table_is_given_the_numbers_as_they_are_and_rows_keep_their_names() -> None:
    frame = customers()[["age", "income", "city"]].set_index(pd.Index(["ann", "bob", "eve"]))
    inputs = Rows.of(frame)
    seen: list[pd.DataFrame] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(inputs.table.decode(x))
        p = (seen[-1]["city"] == "Ulm").to_numpy() * 0.6 + 0.2
        return torch.tensor(np.stack([1 - p, p], axis=1))

    net = pm.Classifier(model, inputs=inputs, outputs="probabilities", names=["stays", "leaves"])
    seen.clear()
    assert net.probabilities(inputs.encode(frame))[:, 1].tolist() == pytest.approx([0.8, 0.2, 0.8])
    pd.testing.assert_frame_equal(seen[-1], frame.reset_index(drop=True))
    proof = pm.explain(net, frame, labels="all", method="occlusion")
    assert proof.evaluation.image_names == ("ann", "bob", "eve")
    assert proof.maps[1, 0].abs().argmax().item() == 2  # the city alone matters
    unnamed = pm.explain(net, frame.reset_index(drop=True)[1:], labels="all", method="occlusion")
    assert unnamed.evaluation.image_names == ("row-1", "row-2")
    with pytest.raises(InputError, match="lacks the column 'city'"):
        pm.explain(net, frame[["age", "income"]], labels="all", method="occlusion")


def test_names_of_rows_and_the_missing_description_of_columns() -> None:
    frame = customers()
    assert NamedImages.names_of(Rows.of(frame).encode(frame[1:])) == ("row-1", "row-2")
    with pytest.raises(InputError, match=r"inputs=Rows.of\(frame\) or Rows\(names"):
        Rows(columns=2, mean=(0, 0), std=(1, 1)).encode(frame)
    with pytest.raises(InputError, match="2 columns need as many names, not 1"):
        Rows(columns=2, mean=(0, 0), std=(1, 1), names=("a",))
    with pytest.raises(InputError, match="but 'a' is there twice"):
        Rows(columns=2, mean=(0, 0), std=(1, 1), names=("a", "a"))
