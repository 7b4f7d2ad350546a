"""Write the documentation as plain Markdown for any builder: the pages of this folder, and those that are made from the program.

    python -m docs.build [FOLDER]        build/docs by default; mkdocs.yml builds the site from it

Made are the command line from its own help, the reference of Python names from docstrings, the tables of methods and tasks, and the leaderboard.
Files of the repository's root become pages, and links to what stays in the repository become its address or the path of the file.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from pathlib import Path
from typing import Any

import typer

from docs import names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
PLACE = re.compile(r"<!-- (tasks|methods|names|coverage):.*?-->")
REPOSITORY = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./)*((?:notes/\w+|CONTRIBUTING)\.md)(#[\w-]+)?\)")
"""A link to what stays in the repository."""
PICTURE = re.compile(r"^(!\[[^\]]*\]\(([^)\s]+)\))$", re.MULTILINE)
STATES = ("done", "stated", "in part", "needs data", "left out")
CODES = """
| exit code | when |
|---|---|
| 0 | success |
| 1 | an audit missed a bar, or `doctor` found damage in a run |
| 2 | the input must be fixed; the message says how |
| 3 | a study is finished, but some image or unit failed |
| 130 | interrupted; the same command continues a study |
"""


def write(folder: Path, leaderboard: Path = ROOT / "leaderboard") -> None:
    """Fill a folder with the pages, and with the files that they show and link to."""
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if path.relative_to(folder).as_posix() == "reference/python.md":
            text = names.linked(text)
        path.write_text(page(text), encoding="utf-8")
    made = {"reference/command-line.md": command_line(), "leaderboard.html": leaderboard_page(leaderboard)}
    for name, place in BESIDE.items():
        made[place] = page(_moved((ROOT / name).read_text(encoding="utf-8")))
    for place, text in {**made, **names.pages()}.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")


def page(text: str) -> str:
    """A page of the repository as the site has it. A picture leads to itself at full size: on a telephone its captions are small."""
    made = {"methods": method_table, "tasks": task_table, "names": names.tables, "coverage": coverage}
    text = PLACE.sub(lambda place: made[place[1]](), text)
    return PICTURE.sub(r"[\1](\2)", REPOSITORY.sub(_to_repository, text))


def _to_repository(link: re.Match[str]) -> str:
    """A link to the repository if ``PROOFMAP_REPOSITORY`` has its address, or the path of the file."""
    from proofmap import __version__

    repository = os.environ.get("PROOFMAP_REPOSITORY", "").rstrip("/")
    words, path = link[1], link[2]
    return (
        f"[{words}]({repository}/blob/v{__version__}/{path}{link[3] or ''})"
        if repository
        else f"{words} (`{path}` in the repository)"
    )


def coverage() -> str:
    """A bar of the states of the paper's items, and the items that are not done."""
    text = (ROOT / "notes" / "coverage.md").read_text(encoding="utf-8")
    items = re.findall(r"^\| \d+ \| (.*?) \|.*\| ([a-z ]+?)(?:: (.*?))? \|$", text, re.MULTILINE)
    counts = {state: sum(item[1] == state for item in items) for state in STATES}
    parts = [
        f'<span class="part" style="flex: {count}; --shade: {100 - 18 * at}%" title="{count} {state}">{count}</span>'
        for at, (state, count) in enumerate(counts.items())
        if count
    ]
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    lines = [f'<div class="coverage" role="img" aria-label="{words}">{"".join(parts)}</div>', "", f"Of {len(items)} items: {words}.", ""]  # fmt: skip
    for state in STATES[2:]:
        lines += [f'<details markdown="1"><summary>{state}: {counts[state]}</summary>', ""]
        for what, its, why in items:
            plain = re.sub(r" ?\(\[why\]\(#[^)]*\)\)|\[([^\]]*)\]\([^)]*\)", r"\1", f"{what}: {why}")
            lines += [f"- {plain}"] if its == state else []
        lines += ["", "</details>"]
    return "\n".join(lines)


def leaderboard_page(folder: Path) -> str:
    """The page of the records in a folder."""
    from proofmap.bench.leaderboard import Leaderboard, page_html

    return page_html(Leaderboard(folder))


def task_table() -> str:
    """The tasks of the benchmark as a Markdown table."""
    from proofmap.bench.task import Task

    lines = [
        "| task | what it is | inputs | fills | never learned on | passes | data |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in map(Task.named, Task.names()):
        number = task.settings["images"]["number"]
        cells = [
            f"`{task.name}`",
            task.title,
            f"{number} {task.kind}",
            ", ".join(task.learned),
            ", ".join(task.unseen),
            f"{task.budget:,}",
            task.source,
        ]
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines)


def method_table() -> str:
    """The registered methods with what they state, as a Markdown table by family."""
    from proofmap.cli.lists import methods_by_family
    from proofmap.methods import Method

    maps = {True: "one for all labels", False: "one per label", None: "depends"}
    lines = ["| method | what it is | passes | map | needs | reference |", "|---|---|---|---|---|---|"]
    for title, members in methods_by_family().items():
        lines.append(f"| **{title}** | | | | | |")
        for facts in members:
            cells = [
                f"`{facts['name']}`",
                facts["description"],
                Method.passes_text(facts["passes"]) or "",
                maps[facts["label_free"]] + (" ±" if facts["signed"] else ""),
                ", ".join(facts["needs"]),
                facts["reference"],
            ]
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines)


def _moved(text: str) -> str:
    """Links of a file in the root, as they are from inside docs."""
    text = text.replace("](docs/", "](")
    for name, page in BESIDE.items():
        text = text.replace(f"]({name})", f"]({page})")
    return text


def command_line() -> str:
    """The page about the command line: every command with its arguments and options."""
    from proofmap.cli import make_app

    group: Any = typer.main.get_command(make_app())
    commands = {name: command for name, command in group.commands.items() if not command.hidden}
    rows = [f"| [`proofmap {name}`](#proofmap-{name}) | {_first(c)} |" for name, c in commands.items()]
    parts = [
        "# Command line",
        "Results go to standard output, messages to standard error. "
        "This page is generated from the program's help; `proofmap COMMAND --help` prints the same.",
        "\n".join(["| command | what it does |", "|---|---|", *rows]),
        CODES.strip(),
        *(_command(name, command) for name, command in commands.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _first(command: Any) -> str:
    return _plain(command.help or "").split("\n\n")[0].replace("\n", " ")


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(
        ["proofmap", name, *(_argument(a) for a in arguments), *(["[OPTIONS]"] if options else [])]
    )
    rows = [f"| `{_argument(a)}` | {_cell(getattr(a, 'help', None))} | |" for a in arguments]
    rows += [f"| {_names(o)} | {_cell(o.help)} | {_default(o)} |" for o in options]
    table = ["", "| | | default |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"## proofmap {name}", "", _plain(command.help or ""), "", f"    {usage}", *table])


def _argument(parameter: Any) -> str:
    name = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _names(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {(option.metavar or option.type.name).strip('<>').upper()}"
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in names)


def _default(option: Any) -> str:
    if option.is_flag and not option.secondary_opts:
        return ""
    if isinstance(option.show_default, str):
        return option.show_default
    value = option.default
    if value is None or callable(value) or value in ("", ()) or "UNSET" in str(value).upper():
        return ""
    if option.is_flag:
        return f"`{option.opts[0] if value else option.secondary_opts[0]}`"
    return f"`{value}`"


def _plain(text: str) -> str:
    """Help with Markdown in place of rich's markup."""
    return re.sub(r"\[bold\](.*?)\[/\]", r"`\1`", text).strip()


def _cell(text: str | None) -> str:
    return _plain(text or "").replace("|", "\\|").replace("\n", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build" / "docs")
    parser.add_argument("--leaderboard", type=Path, default=ROOT / "leaderboard")
    asked = parser.parse_args()
    write(asked.folder, asked.leaderboard)


if __name__ == "__main__":
    main()
