"""The page of ``proofmap serve`` in a real browser: what one sees and paints is what the net was asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from proofmap.app import choices
from proofmap.app.routes import _wrong_labels
from proofmap.core.ranking import keep_top
from proofmap.report import pictures
from proofmap.results.proof_shape import percent, shape_of, short_percent
from tests.app.threaded import Served, png
from tests.browser import pixels_of, serious
from tests.toys import linear_classifier, linear_probabilities, pixels

METHOD = "learned-mask:steps=20,fill=gray"
SIZE = 24
NAMES = [
    "tench",
    "goldfish",
    "white shark",
    "hen",
    "ostrich",
    "<b>brambling</b>",
    "junco",
    "mosque",
    "robin",
    "jay",
    "kite",
    "owl",
]
GRAY = 128  # what hides pixels of this net: its mean, .5


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Jobs begin with a method that is quick and can be watched, after one that does not fit the net."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "DEFAULT_METHODS", ("grad-cam", METHOD))
        yield


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    """Pixels that a PNG holds exactly, in the net's own size."""
    return (pixels(1, SIZE)[0] * 255).round() / 255


@pytest.fixture
def served() -> Iterator[Served]:
    found = tiny()
    yield found
    found.stop()


def tiny(port: int = 0) -> Served:
    middle = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    return Served(linear_classifier(SIZE, len(NAMES), strength=0.05, names=NAMES, **middle), port)


class Tabs:
    """Opens the page; remembers when a page complains or asks anyone but its server."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: list[Any] = []
        self.complaints: list[str] = []

    def __call__(self, served: Served, *, width: int = 1280, fragment: str = "", **options: Any) -> Any:
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(600_000)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "request", lambda r: r.url.startswith((served.address, "data:")) or self.complaints.append(r.url)
        )
        page.goto(served.address + fragment)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    def _heard(self, message: Any) -> None:
        """The browser itself tells of requests that were refused, or that no server took."""
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        assert self.complaints == []


@pytest.fixture
def open_page(browser: Any) -> Iterator[Tabs]:
    tabs = Tabs(browser)
    yield tabs
    tabs.close()


@pytest.fixture(scope="module")
def finished(browser: Any, photo: torch.Tensor) -> Iterator[tuple[Any, Served]]:
    """A page whose job is done, and its server."""
    served, tabs = tiny(), Tabs(browser)
    page = tabs(served)
    choose(page, photo)
    wait_done(page)
    yield page, served
    tabs.close()
    served.stop()


def choose(page: Any, photo: torch.Tensor) -> None:
    page.locator("#file").set_input_files({"name": "fish.png", "mimeType": "image/png", "buffer": png(photo)})


def give(page: Any, event: str, photo: torch.Tensor) -> None:
    """Drop the photo on the page, or paste it."""
    data = base64.b64encode(png(photo)).decode()
    page.evaluate(
        """([event, data]) => {
            const files = new DataTransfer();
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            files.items.add(new File([bytes], "fish.png", { type: "image/png" }));
            const given = { bubbles: true, cancelable: true, dataTransfer: files, clipboardData: files };
            document.body.dispatchEvent(event === "drop" ? new DragEvent(event, given) : new ClipboardEvent(event, given));
        }""",
        [event, data],
    )


def wait_done(page: Any) -> None:
    page.wait_for_selector("#saving:not([hidden])", state="attached")


def canvas_pixels(canvas: Any) -> np.ndarray:
    (found,) = pixels_of(canvas)
    return found[..., :3].astype(int)


def asked_masks(page: Any) -> list[np.ndarray]:
    """The masks that the page asks about from now on."""
    masks: list[np.ndarray] = []

    def heard(request: Any) -> None:
        if request.url.endswith("/api/paint"):
            packed = np.frombuffer(base64.b64decode(json.loads(request.post_data)["mask"]), np.uint8)
            masks.append(np.unpackbits(packed, count=SIZE * SIZE).reshape(SIZE, SIZE))

    page.on("request", heard)
    return masks


def shown_part(photo: torch.Tensor, mask: np.ndarray) -> np.ndarray:
    """M x + (1 - M) x', with gray for x'."""
    part: np.ndarray = np.where(mask[None], photo.numpy(), 0.5)
    return part


def test_the_labels_are_those_that_the_net_believes(
    finished: tuple[Any, Served], photo: torch.Tensor
) -> None:
    page, served = finished
    bars = page.locator("#bars button[data-label]")
    f = linear_probabilities(served.classifier, photo.numpy())
    best = np.argsort(-f, kind="stable")
    wrong = _wrong_labels(torch.tensor(f), range(len(NAMES)), photo[None])
    assert f[wrong].max() < 0.01, "labels that the net does not believe"
    shown = [*(a for a in best[:6] if a not in wrong), *wrong]
    n = len(shown)
    assert bars.locator(".name").all_text_contents()[:n] == [NAMES[a] for a in shown]
    assert bars.locator("b").all_text_contents()[:n] == [short_percent(float(f[a])) for a in shown]
    chosen = [bars.nth(k).get_attribute("aria-pressed") == "true" for k in range(n)]
    expected = [a in wrong or (k < 3 and f[a] >= 0.01) for k, a in enumerate(shown)]
    assert chosen == expected and 2 <= sum(chosen) <= 5, "the most believed, and wrong ones"
    assert bars.nth(n - 1).locator(".note").inner_text() == "a wrong one, to test"
    page.locator("#search").fill("mosq")
    option = page.locator("#found [role=option]").first
    option.wait_for()
    assert option.inner_text().split("\n")[-1] == percent(float(f[NAMES.index("mosque")]))
    page.keyboard.press("Escape")
    assert (canvas_pixels(page.locator("#view")) == (photo.permute(1, 2, 0) * 255).round().numpy()).all()


@pytest.mark.slow
def test_maps_appear_while_they_are_learned_and_painting_is_answered_meanwhile(
    open_page: Tabs, served: Served, photo: torch.Tensor
) -> None:
    served.hold()
    page = open_page(served)
    masks = asked_masks(page)
    give(page, "drop", photo)
    page.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    heat_map = page.locator(".cell canvas.heat").first
    assert len({tuple(p) for p in canvas_pixels(heat_map).reshape(-1, 3)}) > 5
    assert "passes per second" in page.inner_text("#progress-words") and "left" in page.inner_text(
        "#progress-words"
    )
    assert not page.locator("#saving").is_visible()
    page.locator("#tab-paint").click()
    assert not page.locator("#painted").is_visible(), "nothing is painted yet"
    page.locator("#canvas").click()
    page.locator("#painted-share").filter(has_not_text="0 %").wait_for()
    assert masks[-1].any() and served.jobs[0].state == "running"
    assert "still learning" in page.inner_text("#duel")
    served.release()
    wait_done(page)
    assert page.locator("#state").text_content().startswith("Done")


def test_each_proof_is_cut_at_its_belief_until_the_slider_moves_them_all(
    finished: tuple[Any, Served], photo: torch.Tensor
) -> None:
    page, served = finished
    evaluation = served.jobs[0].evaluation
    assert evaluation is not None
    whole = (photo.permute(1, 2, 0) * 255).round().numpy()
    result, labels = evaluation.results[0], evaluation.labels[0].tolist()
    page.locator("#tab-proofs").click()
    page.locator("[name=view][value=seen]").check()
    assert page.locator("#share-words").inner_text() == "each where it reaches the belief"
    for step in (None, 40, 101, 200):
        if step is not None:
            page.locator("#share").fill(str(step))
            page.wait_for_function(
                "(words) => [...document.querySelectorAll('.reading-off')].every((p) => p.textContent.startsWith(words))",
                arg=f"at {step / 2:g} %:",
            )
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        for place, label in enumerate(labels):
            shape, cell = shape_of(evaluation, result, 0, place), page.locator(f".cell[data-label='{label}']")
            share = shape.cut if step is None else step / 200
            best = keep_top(evaluation.map_of(result, 0, place)[None], share)[0].numpy()
            assert (seen(cell.locator("canvas")) == np.where(best[..., None], whole, GRAY)).all()
            assert shape.numbers in cell.locator("canvas").get_attribute("aria-label")
            if step is not None:
                curve = served.jobs[0].maps[0, label]["insertion"]
                p = float(np.interp(share, curve["shares"], curve["f"]))
                assert cell.locator(".reading-off b").text_content() == short_percent(p)
    f = linear_probabilities(served.classifier, photo.numpy())
    read = page.locator(".cell .reading-off b").all_text_contents()  # all is shown
    assert read == [short_percent(float(f[a])) for a in labels]
    page.locator("#each-own").click()
    page.wait_for_function("() => !document.querySelector('.reading-off').textContent")
    page.locator("[name=view][value=proof]").check()


def seen(canvas: Any) -> np.ndarray:
    """The pixels of the net's size in a canvas that shows each as a square."""
    large = canvas_pixels(canvas)
    middles = [((np.arange(SIZE) + 0.5) * n / SIZE).astype(int) for n in large.shape[:2]]
    found: np.ndarray = large[np.ix_(*middles)]
    return found


def test_a_painted_proof_is_what_the_net_is_asked_about(
    finished: tuple[Any, Served], photo: torch.Tensor
) -> None:
    page, served = finished
    masks = asked_masks(page)
    page.locator("#tab-paint").click()
    canvas = page.locator("#canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()

    def at(x: float, y: float) -> tuple[float, float]:
        return box["x"] + x / SIZE * box["width"], box["y"] + y / SIZE * box["height"]

    page.locator("#size").fill("50")
    radius = 50 / 200 * SIZE / 2 + 0.5
    page.mouse.move(*at(6, 8))
    page.mouse.down()
    page.mouse.move(*at(17, 8))
    page.mouse.up()
    y, x = np.mgrid[:SIZE, :SIZE] + 0.5
    near = np.hypot(x - np.clip(x, 6, 17), y - 8)
    certain = abs(near - radius) > 0.3  # the browser rounds places to pixels of the screen
    wait_share(page, masks)
    assert ((masks[-1] == (near <= radius)) | ~certain).all()
    check_answer(page, served, photo, masks[-1])

    first = masks[-1]
    page.locator("[name=tool][value=erase]").check()
    page.mouse.click(*at(6, 8))
    wait_share(page, masks, less_than=first)
    assert (masks[-1] <= first).all() and not masks[-1][8, 6] and masks[-1][8, 17]
    page.locator("#undo").click()
    page.wait_for_function(
        "(n) => document.querySelector('#painted-share').textContent.includes(` ${n} of `)",
        arg=str(first.sum()),
    )
    assert (masks[-1] == first).all()
    page.locator("#clear").click()
    page.locator("#painted").wait_for(state="hidden")
    assert not masks[-1].any() and "Nothing is shown" in page.inner_text("#duel")


@pytest.mark.slow
def test_a_painting_starts_from_a_map_and_is_shared_as_a_link(
    finished: tuple[Any, Served], open_page: Tabs
) -> None:
    page, served = finished
    masks = asked_masks(page)
    evaluation = served.jobs[0].evaluation
    assert evaluation is not None
    page.locator("#tab-proofs").click()
    page.locator("#share").fill("60")
    page.locator("#tab-paint").click()
    page.locator("#start-map").select_option(index=1)
    page.locator("#start").click()
    wait_share(page, masks)
    top = keep_top(evaluation.map_of(evaluation.results[0], 0, 1)[None], 0.3)[0].numpy()
    assert (masks[-1] == top).all()
    assert page.locator("#target").input_value() == str(int(evaluation.labels[0, 1]))
    page.locator("#undo").click()
    page.locator("#painted").wait_for(state="hidden")
    page.locator("#start").click()
    wait_share(page, masks)
    page.locator("#share-link").click()
    link = page.locator("#link")
    link.wait_for()
    address = link.input_value()
    assert address.startswith(f"{served.address}#job={served.jobs[0].id}&label=") and len(address) < 400
    other = open_page(served, fragment=address.removeprefix(served.address))
    other.locator("#painted-share").filter(has_text=f" {top.sum()} of ").wait_for()
    assert other.locator("#target").input_value() == page.locator("#target").input_value()
    broken = open_page(served, fragment=f"#job={served.jobs[0].id}&label=x&mask=AAAA")
    broken.locator("#notice-words").filter(has_text="cannot be read").wait_for()
    page.locator("#clear").click()
    page.locator("#painted").wait_for(state="hidden")


def wait_share(page: Any, masks: list[np.ndarray], less_than: np.ndarray | None = None) -> None:
    """Wait until the page shows the answer to the newest mask."""
    page.wait_for_function("() => !document.querySelector('#clear').disabled")
    for _ in range(30_000):  # minutes: a busy machine takes its time
        new = masks and masks[-1].any() and (less_than is None or masks[-1].sum() < less_than.sum())
        if new and f" {masks[-1].sum()} of " in page.inner_text("#painted-share"):
            return
        page.wait_for_timeout(20)
    raise AssertionError("the page does not show the answer")


def check_answer(page: Any, served: Served, photo: torch.Tensor, mask: np.ndarray) -> None:
    """The numbers beside the painting are those of a linear net, worked out by its formula."""
    f = linear_probabilities(served.classifier, shown_part(photo, mask))
    shown = page.locator("#painted-bars li")
    names = shown.locator(".name").all_text_contents()
    assert names[:5] == [NAMES[a] for a in np.argsort(-f, kind="stable")[:5]]
    assert shown.locator("b").all_text_contents() == [short_percent(float(f[NAMES.index(n)])) for n in names]
    before = linear_probabilities(served.classifier, photo.numpy())
    notes = [f"whole photo {percent(float(before[NAMES.index(n)]))}" for n in names]
    assert shown.locator(".note").all_text_contents() == notes
    evaluation = served.jobs[0].evaluation
    assert evaluation is not None
    target = int(page.locator("#target").input_value())
    place = evaluation.labels[0].tolist().index(target)
    machine = keep_top(evaluation.map_of(evaluation.results[0], 0, place)[None], mask.mean())[0].numpy()
    theirs = linear_probabilities(served.classifier, shown_part(photo, machine))[target]
    whole = linear_probabilities(served.classifier, photo.numpy())[target]
    sides = page.locator("#sides b").all_text_contents()
    assert sides == [short_percent(float(v)) for v in (f[target], theirs, whole)]
    seen = (photo.permute(1, 2, 0) * 255).round().numpy()
    for canvas, kept in zip(page.locator("#pair canvas").all(), (mask == 1, machine), strict=True):
        assert (canvas_pixels(canvas) == np.where(kept[..., None], seen, GRAY)).all()
    leads = int(f.argmax())
    said = f"Your patch makes the net say “{NAMES[leads]}” {percent(float(f[leads]))}; of the whole photo it believes {percent(float(before[leads]))}."
    assert page.inner_text("#duel").startswith(said)
    assert f"makes it say “{NAMES[target]}” {percent(float(theirs))}." in page.inner_text("#duel")


@pytest.mark.slow
def test_keys_alone_suffice(open_page: Tabs, served: Served, photo: torch.Tensor) -> None:
    page = open_page(served)
    masks = asked_masks(page)

    def tab_to(selector: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("(s) => document.activeElement.matches(s)", selector):
                outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none" or selector == "#file"
                return
        raise AssertionError(f"no key leads to {selector}")

    tab_to("#file")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files({"name": "fish.png", "mimeType": "image/png", "buffer": png(photo)})
    wait_done(page)
    page.keyboard.press("Escape")
    tab_to("#bars button[aria-pressed=false]")
    name = page.evaluate("() => document.activeElement.querySelector('.name').textContent")
    page.keyboard.press("Space")
    assert page.evaluate("() => document.activeElement.getAttribute('aria-pressed')") == "true"
    assert name in page.locator("#target option").all_text_contents()
    tab_to("#search")
    page.keyboard.type("mosq")
    page.locator("#found [role=option]").first.wait_for()
    page.keyboard.press("Enter")
    page.locator("#target option", has_text="mosque").wait_for(state="attached")
    tab_to("#run")
    page.keyboard.press("Enter")
    page.wait_for_function("(n) => document.querySelectorAll('.cell').length >= n", arg=4)
    wait_done(page)
    tab_to("#share")
    page.keyboard.press("ArrowRight")
    share = page.locator("#share").input_value()
    page.keyboard.press("ArrowRight")
    assert int(page.locator("#share").input_value()) == int(share) + 1
    tab_to("#tab-proofs")
    page.keyboard.press("ArrowRight")
    tab_to("#canvas")
    page.keyboard.press("ArrowLeft")
    page.keyboard.down("Space")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.up("Space")
    wait_share(page, masks)
    assert masks[-1][: SIZE // 2, SIZE // 2 - 1].any() and not masks[-1][-1].any()
    page.keyboard.press("e")
    assert page.locator("[name=tool][value=erase]").is_checked()
    page.keyboard.press("z")
    page.locator("#painted").wait_for(state="hidden")


@pytest.mark.slow
def test_a_job_is_cancelled_half_way_and_the_next_one_runs(
    open_page: Tabs, served: Served, photo: torch.Tensor
) -> None:
    served.hold()
    page = open_page(served)
    give(page, "paste", photo)
    page.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    button = page.locator("#run")
    assert button.inner_text() == "Finding …" and button.get_attribute("aria-disabled") == "true"
    button.press("Enter")
    assert served.jobs[0].state == "running", "the button that starts does not stop"
    page.locator("#cancel").click()
    page.locator("#state").filter(has_text="Stopped").wait_for()
    assert served.jobs[0].state == "cancelled" and not page.locator("#cancel").is_visible()
    assert button.inner_text() == "Try again"
    assert page.locator(".cell .reading-off").first.inner_text() == "not finished"
    served.release()
    page.locator("#settings > summary").click()
    assert page.locator("#methods > .chips .chip").all_text_contents() == [
        "belief-mask",
        "learned-mask",
        "integrated-gradients",
        "rise",
        "occlusion",
    ], "the first that fit this net, which has no layer of maps and no attention"
    page.locator("#more-methods > summary").click()
    page.get_by_role("button", name="gradient-x-input", exact=True).click()
    assert button.inner_text() == "Find the proofs"
    assert "gradient-x-input" in page.inner_text("#settings-words")
    page.locator(".settings summary").nth(1).click()
    channels = page.get_by_label("channels", exact=True)
    assert "Default sum" in page.locator(f"#{channels.get_attribute('aria-describedby')}").inner_text()
    channels.select_option("max")
    assert page.locator(".settings summary").nth(1).inner_text() == "Settings (1 changed)"
    button.click()
    wait_done(page)
    assert button.inner_text() == "Found" and len(served.jobs) == 2
    assert page.locator(".row h2").all_text_contents()[:1] == [METHOD] and page.locator(".row").count() == 2
    assert served.jobs[1].asked.methods == [METHOD, "gradient-x-input:channels=max"]
    labels = len(served.jobs[1].asked.labels)
    assert page.locator(".row").nth(1).locator(".cell").count() == labels
    channels.select_option("sum")
    button.click()
    page.locator("[name=view][value=heat]").check()
    page.locator("#signed-legend").wait_for()  # gradient x input says what speaks against a label
    assert served.jobs[2].asked.methods == [METHOD, "gradient-x-input"]


@pytest.mark.slow
def test_settings_are_read_from_specs_and_written_back(finished: tuple[Any, Served]) -> None:
    page, _ = finished
    read = """async (specs) => {
        const { settingsIn, specOf } = await import("/static/settings.js");
        const { methods } = await (await fetch("/api/about")).json();
        return specs.map((spec) => {
            const method = methods.find(({ base }) => base === spec.split(":")[0]);
            const values = settingsIn(method, spec);
            return values && specOf(method, values);
        });
    }"""
    same = [
        "rise",
        "belief-mask:passes=60,fills=gray+blur(sigma=3,kernel=5)",
        "top-label:of=grad-cam",
        "rise:grid=5,preset=x",
    ]
    found = page.evaluate(read, [*same, "rise:masks=4000", "top-label:grad-cam:layer=x"])
    assert found == [*same[:3], "rise:preset=x,grid=5", "rise", None]


@pytest.mark.slow
def test_a_refresh_and_a_second_tab_come_back_to_the_running_job(
    open_page: Tabs, served: Served, photo: torch.Tensor
) -> None:
    served.hold()
    page = open_page(served)
    choose(page, photo)
    page.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    page.reload()
    page.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    other = open_page(served, fragment="#" + page.url.partition("#")[2])
    other.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    third = open_page(served)
    choose(third, photo.flip(-1))
    third.locator("#state").filter(has_text="next in the queue").wait_for()
    third.locator("#cancel").click()
    third.locator("#state").filter(has_text="Stopped").wait_for()
    fourth = open_page(served)
    choose(fourth, photo)  # the same request: it gets the job that runs
    fourth.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    choose(fourth, photo.flip(-2))  # and leaving it does not stop it
    fourth.locator("#state").filter(has_text="next in the queue").wait_for()
    fourth.locator("#cancel").click()
    fourth.locator("#state").filter(has_text="Stopped").wait_for()
    served.release()
    for tab in (page, other):
        wait_done(tab)
    assert [job.state for job in served.jobs] == ["done", "cancelled", "cancelled"]


@pytest.mark.slow
def test_after_a_restart_of_the_server_the_job_runs_again(open_page: Tabs, photo: torch.Tensor) -> None:
    served = tiny()
    served.hold()
    page = open_page(served)
    choose(page, photo)
    page.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
    served.stop()
    again = tiny(served.port)
    try:
        page.locator("#notice-words").filter(has_text="The server was restarted").wait_for()
        page.locator("#notice-action", has_text="Run it again").click()
        wait_done(page)
        assert len(again.jobs) == 1 and again.jobs[0].asked == served.jobs[0].asked
        page.reload()  # the photo is in the tab's memory, too
        wait_done(page)
        mistyped = open_page(again, fragment=f"#job={'0' * 32}")
        assert "its address is incomplete" in mistyped.inner_text("#notice-words")
    finally:
        again.stop()


def test_results_can_be_saved(finished: tuple[Any, Served]) -> None:
    page, _ = finished
    page.locator("#tab-proofs").click()
    page.locator("#saving summary").click()
    assert page.inner_text("#command").startswith("proofmap explain")
    for link in page.locator("#files a").all():
        with page.expect_download() as download:
            link.click()
        assert download.value.failure() is None
    assert page.locator("#files a").count() == 3


@pytest.mark.slow
def test_what_is_no_picture_is_refused_in_words(finished: tuple[Any, Served]) -> None:
    page, _ = finished
    for name, kind, words in (
        ("a.png", "image/png", "a.png cannot be read as an image"),
        ("wrong.txt", "text/plain", "wrong.txt is not a picture. JPEG, PNG or WebP, up to 20 MB."),
    ):
        page.locator("#file").set_input_files({"name": name, "mimeType": kind, "buffer": b"no picture"})
        page.locator("#notice-words").filter(has_text=words).wait_for()
    assert page.locator("#run").inner_text() == "Found", "what is shown stays"


@pytest.mark.slow
def test_the_button_says_what_a_press_does(finished: tuple[Any, Served]) -> None:
    """Every stage, and every event that could come late in it."""
    page, _ = finished
    walks = page.evaluate(
        """async () => {
            const { next, buttonOf, stageWords } = await import("/static/stages.js");
            const walk = (...events) => events.reduce(next, "empty");
            const started = ["photo", "believed", "run"];
            return {
                button: {
                    ready: buttonOf(walk("photo", "believed")),
                    none: buttonOf(walk("photo", "believed"), { labels: 0 }),
                    starting: buttonOf(walk(...started), { changed: false }),
                    running: buttonOf(walk(...started, "job", "running"), { changed: false }),
                    other: buttonOf(walk(...started, "job", "running"), { changed: true }),
                    stopping: buttonOf(walk(...started, "job", "running", "stop"), { changed: false }),
                    done: buttonOf(walk(...started, "job", "done"), { changed: false }),
                    changed: buttonOf(walk(...started, "job", "done"), { changed: true }),
                },
                stage: {
                    late: walk(...started, "job", "running", "waiting"),
                    stopped: walk(...started, "job", "running", "stop", "running", "cancelled"),
                    faster: walk(...started, "job", "stop", "done"),
                    refused: walk(...started, "refused"),
                    lost: walk(...started, "job", "running", "lost"),
                    again: walk(...started, "job", "running", "photo"),
                },
                words: stageWords("failed", { message: "no memory" }),
            };
        }"""
    )
    assert {name: (b["action"], b["words"]) for name, b in walks["button"].items()} == {
        "ready": ("run", "Find the proof"),
        "none": (None, "Choose a label to prove"),
        "starting": (None, "Finding …"),
        "running": (None, "Finding …"),
        "other": ("run", "Find these instead"),
        "stopping": (None, "Stopping …"),
        "done": (None, "Found"),
        "changed": ("run", "Find the proof"),
    }
    assert walks["stage"] == {
        "late": "running",
        "stopped": "cancelled",
        "faster": "done",
        "refused": "ready",
        "lost": "ready",
        "again": "reading",
    }
    assert walks["words"] == "Failed: no memory"


@pytest.mark.slow
def test_a_telephone_needs_no_scrolling_sideways_and_nobody_is_shut_out(
    finished: tuple[Any, Served], open_page: Tabs
) -> None:
    page, served = finished
    first = open_page(served, width=390)
    assert first.evaluate("() => document.documentElement.scrollWidth") == 390
    page.locator("#tab-paint").click()
    page.locator("#canvas").click()
    page.locator("#search").fill("o")
    page.locator("#found [role=option]").first.wait_for()
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    for look in ({"color_scheme": "light"}, {"color_scheme": "dark", "reduced_motion": "reduce"}):
        page.emulate_media(**look)
        assert serious(page) == []
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_verdict_is_about_the_label_that_leads(finished: tuple[Any, Served]) -> None:
    page, _ = finished
    boxer, cat = {"label": 1, "name": "boxer"}, {"label": 2, "name": "tabby"}

    def words(leader: dict[str, Any], target: dict[str, Any] | None = None, **more: Any) -> str:
        given = {"leader": leader, "target": target or leader, "method": "belief-mask", "share": 0.2, **more}
        said: str = page.evaluate(
            "async (given) => (await import('/static/sentences.js')).verdict(given)", given
        )
        return said

    assert words({**boxer, "f": 0.73, "whole": 0.14}, machine=0.2) == (
        "Your patch makes the net say “boxer” 73 %; of the whole photo it believes 14 %. A part can prove too much."
        " With as many pixels, belief-mask makes it say “boxer” 20 %."
    )
    assert "not sound" in words({**boxer, "f": 0.73, "whole": 0.004})
    assert "not yet a proof" in words({**boxer, "f": 0.3, "whole": 0.6})
    assert "This is a proof" in words({**boxer, "f": 0.55, "whole": 0.6})
    both = words({**boxer, "f": 0.55, "whole": 0.6}, {**cat, "f": 0.001, "whole": 0.002})
    assert "For “tabby” it gives less than 1 % of less than 1 %. The net does not believe it" in both
    assert "Find the proofs" in both and "still learning" in words(
        {**boxer, "f": 1, "whole": 1}, searching=True
    )
    assert words({**boxer, "f": 0.1, "whole": 0.6}, {**cat, "f": 0, "whole": 0.2}, share=0) == (
        "Nothing is shown yet. Paint what makes the net say “tabby”."
    )


def test_signed_maps_have_the_colours_of_the_report(finished: tuple[Any, Served]) -> None:
    page, _ = finished
    stops = page.evaluate("async () => (await import('/static/shared.js')).DIVERGING")
    assert stops == pictures.DIVERGING.tolist()


@pytest.mark.slow
def test_of_two_photos_the_newer_one_stays(finished: tuple[Any, Served], photo: torch.Tensor) -> None:
    page, served = finished
    late: list[Any] = []
    page.route("**/api/photos?*", lambda route: route.continue_() if late else late.append(route))
    jobs = len(served.jobs)
    page.evaluate("() => { document.querySelector('#saving').hidden = true; }")  # of the job before
    choose(page, photo)  # its answer comes late
    page.wait_for_function("() => document.querySelector('#photo-words').textContent.startsWith('Reading')")
    choose(page, photo.flip(-1))
    page.locator("#bars button").nth(6).wait_for()
    with page.expect_response("**/api/photos?*"):
        late[0].continue_()
    wait_done(page)
    shown = (photo.flip(-1).permute(1, 2, 0) * 255).round().numpy()
    assert (canvas_pixels(page.locator("#view")) == shown).all() and len(served.jobs) == jobs + 1
