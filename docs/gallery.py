"""The gallery: every picture of the documentation, with the page that explains it and the command that makes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLACE = re.compile(r"<!-- gallery:.*?-->")
_IMAGE = re.compile(r"!\[(?P<words>[^\]]+)\]\((?:\.\./)*pictures/(?P<name>[^)\s]+)\)")
_COMMANDS = {
    "rocket.belief-mask.png": "proofmap explain sample:rocket",
    "two-languages.png": 'proofmap explain --text "The committee voted yesterday, aber niemand wusste davon." --model py3langid '
    "--labels en,de,nl --method belief-order,kernel-shap",
}
"""Pictures that a single command of the program makes."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the pictures where a page has the comment."""
    return PLACE.sub(lambda _: gallery(), markdown)


def gallery() -> str:
    """A section for each picture, in the order of the pages."""
    parts = []
    for name, (words, page) in shown_pictures().items():
        link = page.relative_to(HERE).as_posix()
        parts.append(
            f"![{words}](pictures/{name})\n\n{words}. Explained in [{_title(page)}]({link}).\n\n```sh\n{command_for(name)}\n```"
        )
    return "\n\n".join(parts)


def shown_pictures() -> dict[str, tuple[str, Path]]:
    """The pictures by name: the words and the page of their first use."""
    found: dict[str, tuple[str, Path]] = {}
    pages = [HERE / "index.md", HERE / "idea.md", *sorted(HERE.rglob("*.md"))]
    for page in pages:
        for image in _IMAGE.finditer(page.read_text(encoding="utf-8")):
            found.setdefault(image["name"], (image["words"].rstrip("."), page))
    return found


def command_for(name: str) -> str:
    """The command that makes a picture: one of the program, a recipe, or a script of the documentation."""
    from proofmap.reproduce.recipe import Recipe

    if name in _COMMANDS:
        return _COMMANDS[name]
    for script in [*sorted(HERE.glob("*_pictures.py")), HERE / "idea_by_hand.py", HERE / "series_picture.py"]:
        if name in script.read_text(encoding="utf-8"):
            argument = f" {name}" if script.stem == "make_pictures" else ""
            return f"python -m docs.{script.stem}{argument}"
    recipes = [recipe for recipe in Recipe.names() if name.startswith(recipe)]
    if not recipes:
        raise ValueError(f"nothing makes the picture {name}")
    return f"proofmap reproduce {max(recipes, key=len)}"


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
