"""Files of texts: lines, and columns of CSV and JSONL files; what is wrong with one is said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.data.dataset import list_datasets
from proofmap.data.huggingface import texts_of_rows
from proofmap.data.specs import open_data, rebuild_dataset
from proofmap.data.texts import TextData, text_file
from tests.test_text import net

ROWS = [("Good film, really good.", "good"), ('A "bad" one.\nTwo lines.', "bad"), ("Great fun", "")]


def table(folder: Path) -> Path:
    lines = ["review,mark", *('"{}",{}'.format(text.replace('"', '""'), mark) for text, mark in ROWS)]
    path = folder / "reviews.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_column_of_a_csv_file_with_true_labels(tmp_path: Path) -> None:
    data = open_data(f"{table(tmp_path)}?column=review&target=mark")
    assert isinstance(data, TextData) and data.texts == [text for text, _ in ROWS]
    assert data.label_names == ("bad", "good") and [data.truth(i) for i in range(3)] == [1, 0, None]
    again = rebuild_dataset(data.settings())
    assert [again.digest(i) for i in range(3)] == [data.digest(i) for i in range(3)]


def test_lines_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One text.\n\nAnother.\n", encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"t": text, "id": mark}) + "\n" for text, mark in ROWS), encoding="utf-8"
    )
    lines, rows = open_data(str(tmp_path / "a.txt")), open_data(f"{tmp_path / 'a.jsonl'}?column=t&name=id")
    assert isinstance(lines, TextData) and lines.texts == ["One text.", "Another."]
    assert isinstance(rows, TextData) and rows.texts[1] == ROWS[1][0] and rows.names[0] == "good"


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c", "\x1e"])
def test_only_a_line_break_ends_a_line(tmp_path: Path, end: str) -> None:
    """Other separators are characters of a text, as pandas and JSON read them. A column was cut in two there, and labels were lost."""
    text = f"good{end}film"
    row = json.dumps({"t": text, "mark": "yes"}, ensure_ascii=False)
    files = {"a.txt": text, "a.csv": f"t,mark\n{text},yes", "a.tsv": f"t\tmark\n{text}\tyes", "a.jsonl": row}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        columns = {} if name == "a.txt" else {"column": "t", "target": "mark"}
        data = text_file(tmp_path / name, **columns)
        assert data.texts == [text] and (name == "a.txt" or data.label_names == ("yes",))


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    parquet.write_table(pyarrow.table({"t": ["a b", "c"]}), tmp_path / "a.parquet")
    data = open_data(f"{tmp_path / 'a.parquet'}?column=t")
    assert isinstance(data, TextData) and data.texts == ["a b", "c"]


@pytest.mark.parametrize(
    "name, content, options, reason",
    [
        ("a.csv", b"x,y\n1,2\n", {}, "has the columns x, y: say which has the texts"),
        (
            "a.csv",
            b"review,y\n1,2\n",
            {"column": "reviews"},
            "has no column 'reviews'. Did you mean 'review'",
        ),
        ("a.csv", b"x\n", {"column": "x"}, "has no rows"),
        (
            "a.csv",
            b"x,y\na film, really,pos\n",
            {"column": "x"},
            "line 2 of a.csv has 3 fields, but 2 columns",
        ),
        (
            "a.csv",
            b'x,y\n"a film,pos\nb,neg\n',
            {"column": "x"},
            "a.csv cannot be read: unexpected end of data",
        ),
        ("a.txt", b"\n \n", {}, "a.txt has no texts"),
        ("a.txt", b"ok\ncaf\xe9\n", {}, "a.txt cannot be read as text in UTF-8, because of line 2"),
        ("a.txt", b"ok\n", {"column": "x"}, "read line by line and has no columns"),
        ("a.jsonl", b'{"t": 1}\n{t\n', {"column": "t"}, "line 2 of a.jsonl is not JSON"),
        ("a.jsonl", b"[1]\n", {"column": "t"}, "line 1 of a.jsonl is not JSON of an object"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes, options: dict[str, str], reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=reason):
        text_file(tmp_path / name, **options)


def test_a_dataset_of_texts_is_judged(tmp_path: Path) -> None:
    data = open_data(f"{table(tmp_path)}?column=review&target=mark")
    found = pm.evaluate(net(), data, methods=["occlusion"], metrics=["insertion"], labels="all")
    assert len(found.image_names) == 3 and "text" in {info.name for info in list_datasets()}


def test_an_empty_text_of_a_file_is_named() -> None:
    with pytest.raises(InputError, match="text-1 of texts is empty"):
        pm.evaluate(net(), TextData(["ok", " "]), methods=["occlusion"], metrics=["insertion"], labels="all")


class Rows:
    """What is used of ``datasets.Dataset``: columns by name, and their types."""

    def __init__(self, columns: dict[str, list[Any]], kinds: dict[str, Any]) -> None:
        self.column_names, self.features, self._columns = list(columns), kinds, columns

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]

    def with_format(self, form: None) -> Rows:
        return self


STRING, CLASSES = SimpleNamespace(dtype="string"), SimpleNamespace(dtype="int64", names=["bad", "good"])


def test_texts_of_a_hugging_face_dataset() -> None:
    rows = Rows(
        {"text": ["Good film.", "Bad film."], "id": ["a", "b"], "label": [1, -1]},
        {"text": STRING, "id": STRING, "label": CLASSES},
    )
    data = texts_of_rows(rows)
    assert data.texts == ["Good film.", "Bad film."] and data.label_names == ("good",)
    assert [data.true_labels(i) for i in range(2)] == [(0,), ()]
    two = Rows({"review": ["Good."], "title": ["x"]}, {"review": STRING, "title": STRING})
    with pytest.raises(InputError, match="say which has the texts, with text=COLUMN"):
        texts_of_rows(two)
    with pytest.raises(InputError, match=r"has no column 'reviews'\. Did you mean 'review'"):
        texts_of_rows(two, column="reviews")
    assert texts_of_rows(two, column="review").texts == ["Good."]


def test_a_hugging_face_dataset_is_judged() -> None:
    rows = Rows({"review": ["Good film, good songs.", "Bad plot."]}, {"review": STRING})
    found = pm.evaluate(net(), rows, methods=["random"], metrics=["completeness"], labels="top1")
    assert found.image_names == ("text-0", "text-1") and len(found.results) == 1
