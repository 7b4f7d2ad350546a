"""Seconds from choosing a photo to its first labels and to its first map, on the page of ``proofmap serve`` in Chromium.

    PYTHONPATH=. python benchmarks/serve_speed.py [PHOTO ...]

Each photo is given to a server that has been running for a while, as a visitor's browser gives it; the sample photographs,
saved anew as JPEG, stand in where none is named. The page asks for the maps by itself as soon as it knows the labels.
"""

from __future__ import annotations

import argparse
import io
import os
import time
from pathlib import Path

from PIL import Image

from docs.serve_pictures import served
from proofmap.data.photos import SAMPLES, sample_path
from tests.browser import chromium

_WARM = 8.0  # seconds that a server has to load its net


def as_jpeg(path: Path) -> bytes:
    file = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").save(file, "JPEG", quality=90)
    return file.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", nargs="*", type=Path)
    args = parser.parse_args()
    photos = args.photos or [sample_path(name) for name in list(SAMPLES)[:4]]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("photo | labels after, s | first map after, s")
    with served() as address, chromium() as browser:
        time.sleep(_WARM)
        for path in photos:
            page = browser.new_page()
            page.goto(address)
            page.locator("#samples button").first.wait_for()
            chosen = {"name": f"{path.stem}.jpg", "mimeType": "image/jpeg", "buffer": as_jpeg(path)}
            began = time.perf_counter()
            page.locator("#file").set_input_files(chosen)
            page.locator("#bars button").first.wait_for()
            labels = time.perf_counter() - began
            page.locator(".cell .reading-off").first.filter(has_text="step").wait_for()
            print(f"{path.stem} | {labels:.2f} | {time.perf_counter() - began:.2f}", flush=True)
            page.locator("#cancel").click()
            page.locator("#state").filter(has_text="Cancelled").wait_for()
            page.close()


if __name__ == "__main__":
    main()
