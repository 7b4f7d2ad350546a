"""Put the built documentation into a folder with other versions, for any static host.

    make docs && python docs/publish.py FOLDER

``FOLDER/VERSION/`` gets the site, and ``FOLDER/index.html`` leads to the newest version. ``FOLDER/versions.js`` has the list of versions and
the menu that each page shows; pages load it by a script tag, so the menu works from disk, too. An older version shows newer ones, because
they share this file.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

from proofmap.core.version import __version__

MENU = """
(function () {
  var here = document.currentScript.getAttribute("data-version");
  var root = document.currentScript.src.replace(/versions\\.js.*$/, "");
  var title = document.querySelector(".md-header__topic");
  if (!title) return;
  var menu = document.createElement("select");
  menu.setAttribute("aria-label", "Version");
  menu.className = "proofmap-versions";
  versions.forEach(function (version) {
    menu.add(new Option(version, version, false, version === here));
  });
  menu.addEventListener("change", function () { location.href = root + menu.value + "/index.html"; });
  title.appendChild(menu);
})();
"""
FRONT = '<!doctype html>\n<meta charset="utf-8">\n<title>Proofmap</title>\n<meta http-equiv="refresh" content="0; url={0}/index.html">\n<a href="{0}/index.html">Proofmap {0}</a>\n'


def publish(site: Path, folder: Path, version: str = __version__) -> list[str]:
    """Copy a site into a folder of versions; the versions there, newest first."""
    target = folder / version
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(site, target)
    for page in target.rglob("*.html"):
        up = "../" * len(page.relative_to(target).parts)
        tag = f'<script src="{up}versions.js" data-version="{version}"></script>'
        page.write_text(
            page.read_text(encoding="utf-8").replace("</body>", f"{tag}</body>"), encoding="utf-8"
        )
    versions = sorted((path.parent.name for path in folder.glob("*/index.html")), key=_order, reverse=True)
    (folder / "versions.js").write_text(
        f"var versions = {json.dumps(versions)};\n{MENU.lstrip()}", encoding="utf-8"
    )
    (folder / "index.html").write_text(FRONT.format(versions[0]), encoding="utf-8")
    return versions


def _order(version: str) -> list[int]:
    """
    >>> sorted(["0.10.0", "0.9.1"], key=_order)
    ['0.9.1', '0.10.0']
    """
    return [int(part) for part in re.findall(r"\d+", version)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", type=Path, default=Path("build/site"), help="what make docs built")
    asked = parser.parse_args()
    if not (asked.site / "index.html").is_file():
        parser.error(f"there is no site in {asked.site}; run make docs first")
    asked.folder.mkdir(parents=True, exist_ok=True)
    print(", ".join(publish(asked.site, asked.folder)))


if __name__ == "__main__":
    main()
