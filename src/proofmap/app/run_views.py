"""Makes what the server shows of a run: its report, the pages and values of its images, and its comparison with another run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from proofmap.app.items import Kept, NotFound
from proofmap.app.run_folders import RunFolder, RunFolders, method_names, public_text
from proofmap.app.run_records import (
    BelievedLabel,
    ComparisonRecord,
    DifferenceRecord,
    DropRecord,
    ImageList,
    ImageRecord,
    MetricRecord,
    RunImage,
    RunRecord,
)
from proofmap.core.errors import InputError
from proofmap.report.runs import write_image_page, write_run_report
from proofmap.results.compare import Comparison, compare
from proofmap.results.drops import DropLine, find_drops
from proofmap.results.evaluation import Evaluation
from proofmap.study.reading.stored_run import Run
from proofmap.study.store.records import ImageRow

READERS, DRAWERS = 2, 1
"""Numbers of threads that read runs and that make pages, for all visitors together. So the rest of the server stays responsive."""
MOST_BYTES = 64_000_000
"""Largest size in bytes of all kept pages together."""
MOST_EVALUATIONS = 4

T = TypeVar("T")


class RunViews:
    """Pages and numbers of the runs below a folder. Pages and evaluations are cached until their run changes.

    The work of a request runs in another thread: by :meth:`read` if it only reads, and by :meth:`draw`, one request at a time, if it makes a
    page or a comparison.
    """

    def __init__(self, root: Path) -> None:
        self.folders = RunFolders(root)
        self._readers, self._drawers = CapacityLimiter(READERS), CapacityLimiter(DRAWERS)
        self._pages: Kept[tuple[str, str, int | None], bytes] = Kept(
            lambda kept: sum(map(len, kept)) > MOST_BYTES
        )
        self._evaluations: Kept[tuple[str, str], Evaluation] = Kept(lambda kept: len(kept) > MOST_EVALUATIONS)

    async def read(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._readers)

    async def draw(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._drawers)

    def record(self, run: str) -> RunRecord:
        return self.folders.record(self.folders.find(run))

    # ---- pages --------------------------------------------------------------------------------------------------

    def page(self, run: str, image: int | None = None) -> bytes:
        """The current report of a run, or the page of one image. Any image has a page, even if the report does not show it."""
        folder = self.folders.find(run)

        def make() -> bytes:
            with TemporaryDirectory(prefix="proofmap-") as room, Run(folder.path) as opened:
                path = Path(room, "page.html")
                if image is None:
                    title = f"{public_text(folder.name)}: what do the heat maps prove?"
                    write_run_report(opened, path, title=title)
                else:
                    write_image_page(opened, image, path)
                return path.read_bytes()

        return self._pages.get_or_make((run, self.folders.version(folder), image), make)

    # ---- images -------------------------------------------------------------------------------------------------

    def images(
        self,
        run: str,
        *,
        search: str = "",
        metric: str | None = None,
        sort: str | None = None,
        start: int = 0,
        number: int = 50,
    ) -> ImageList:
        """Up to ``number`` images of a run, with their values of one metric, beginning at ``start``.

        ``search`` keeps images that contain this text in their name or in the name of a label. ``sort`` is the name of a method: the images
        with its worst values come first. ``metric`` is by default the first metric of the run.
        """
        with Run(self.folders.find(run).path) as opened, opened.store.snapshot():
            metrics = opened.metrics
            if not metrics:
                raise InputError("the run has no numbers yet; open it again in a moment")
            asked = next(iter(metrics)) if metric is None else metric
            columns = dict(zip(method_names(opened), opened.column(asked).values(), strict=True))
            higher = metrics[asked].flag
            names = opened.label_names
            places = [k for k, row in enumerate(opened.images) if _holds(row, names, search)]
            if sort is not None:
                if sort not in columns:
                    raise InputError(f"the run has no method {sort!r}; it has {', '.join(columns)}")
                places.sort(key=lambda k: _worst_first(columns[sort][k], higher))
            shown = places[start : start + number]
            return ImageList(
                run=run,
                metric=MetricRecord(name=asked, higher_is_better=higher),
                total=len(opened.images),
                found=len(places),
                start=start,
                images=[
                    ImageRecord(
                        image=k,
                        name=public_text(opened.images[k].name),
                        labels=_labels(opened.images[k], names),
                        values={method: _finite(column[k]) for method, column in columns.items()},
                    )
                    for k in shown
                ],
            )

    def image(self, run: str, image: int) -> RunImage:
        """One image of a run with all its values."""
        with Run(self.folders.find(run).path) as opened, opened.store.snapshot():
            if not 0 <= image < len(opened.images):
                raise NotFound(f"there is no image {image}: the run has 0 to {len(opened.images) - 1}")
            row = opened.images[image]
            names = dict(zip(opened.methods, method_names(opened), strict=True))
            values: dict[str, dict[str, float | None]] = {name: {} for name in names.values()}
            for metric in opened.metrics:
                for method, column in opened.column(metric).items():
                    values[names[method]][metric] = _finite(column[image])
            return RunImage(
                run=run,
                image=image,
                name=public_text(row.name),
                labels=_labels(row, opened.label_names),
                values=values,
                maps=[names[method] for method in opened.mapped(image)],
            )

    # ---- two runs -----------------------------------------------------------------------------------------------

    def comparison(
        self,
        run: str,
        against: str,
        *,
        baseline: str | None = None,
        metrics: Sequence[str] | None = None,
        allow_mismatch: bool = False,
        max_drop: float | None = None,
    ) -> tuple[Comparison, tuple[DropLine, ...], tuple[str, ...]]:
        """The comparison that ``proofmap compare AGAINST RUN`` prints, and, if ``max_drop`` is given, the drops of scores and notes on them.

        A difference is a value of ``run`` minus the value of ``against``.
        """
        folders = [self.folders.find(against), self.folders.find(run)]
        if folders[0] == folders[1]:
            raise InputError("a run is not compared with itself; choose two")
        before, now = (self._evaluation(folder) for folder in folders)
        found = compare(
            {public_text(folders[0].name): before, public_text(folders[1].name): now},
            baseline=baseline,
            metrics=metrics,
            allow_mismatch=allow_mismatch,
        )
        if max_drop is None:
            return found, (), ()
        both = [r.name for r in now.results if r.name in {result.name for result in before.results}]
        drops, notes = find_drops(now, before, max_drop, both)
        return found, drops, notes

    def _evaluation(self, folder: RunFolder) -> Evaluation:
        def read() -> Evaluation:
            with Run(folder.path) as opened:
                return opened.evaluation()

        return self._evaluations.get_or_make((folder.run, self.folders.version(folder)), read)


def comparison_record(
    run: str,
    against: str,
    found: Comparison,
    drops: Sequence[DropLine],
    notes: Sequence[str],
) -> ComparisonRecord:
    """A comparison as a record for JSON."""
    return ComparisonRecord(
        run=run,
        against=against,
        differences=[DifferenceRecord.model_validate(_plain(d.record())) for d in found.differences],
        drops=[DropRecord.model_validate(_plain(asdict(line))) for line in drops],
        notes=[public_text(note) for note in (*found.notes, *notes)],
    )


def _plain(record: dict[str, object]) -> dict[str, object]:
    """A record as JSON can hold it and visitors may see it: None for NaN and infinity, and texts without folders."""
    numbers = {key: _finite(value) for key, value in record.items() if isinstance(value, float)}
    return (
        record | numbers | {key: public_text(text) for key, text in record.items() if isinstance(text, str)}
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _labels(row: ImageRow, names: Sequence[str]) -> list[BelievedLabel]:
    return [
        BelievedLabel(label=label, name=public_text(names[label]), f=_finite(f))
        for label, f in zip(row.labels, row.f, strict=True)
    ]


def _holds(row: ImageRow, names: Sequence[str], search: str) -> bool:
    text = search.strip().casefold()
    return text in row.name.casefold() or any(text in names[label].casefold() for label in row.labels)


def _worst_first(value: float | None, higher: bool) -> tuple[bool, float]:
    """A sort key by which the worst values come first, and images that do not count come last."""
    if value is None:
        return True, 0.0
    return False, value if higher else -value


def split_names(text: str) -> list[str] | None:
    """Names separated by commas; None if there are none."""
    return [name.strip() for name in text.split(",") if name.strip()] or None
