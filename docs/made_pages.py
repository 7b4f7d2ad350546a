"""Pages that are made while the site is built: the command line from its own help, the table of methods from the registry, and
files of the repository's root."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:  # make test reads the tables, and does without MkDocs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
BESIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
TASKS_PLACE = re.compile(r"<!-- tasks:.*?-->")
METHODS_PLACE = re.compile(r"<!-- methods:.*?-->")
NOTE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(notes/\w+\.md)(#[\w-]+)?\)")
"""A link to a note: these stay in the repository."""
CODES = """
| exit code | when |
|---|---|
| 0 | success |
| 1 | an audit missed a bar, or `doctor` found damage in a run |
| 2 | the input must be fixed; the message says how |
| 3 | a study is finished, but some image or unit failed |
| 130 | interrupted; the same command continues a study |
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every page says which version it describes."""
    from proofmap import __version__

    config.site_name = f"Proofmap {__version__}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/command-line.md", content=command_line()))
    files.append(File.generated(config, "leaderboard.html", content=leaderboard()))
    for name, page in BESIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_moved(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The tables of methods and of tasks in the places that pages keep for them, and links to the notes."""
    markdown = NOTE.sub(_to_repository, markdown)
    markdown = METHODS_PLACE.sub(lambda _: method_table(), markdown)
    return TASKS_PLACE.sub(lambda _: task_table(), markdown)


def _to_repository(link: re.Match[str]) -> str:
    """A link to a note as the site has it: to the repository if ``PROOFMAP_REPOSITORY`` has its address, or the path of the file."""
    from proofmap import __version__

    repository = os.environ.get("PROOFMAP_REPOSITORY", "").rstrip("/")
    words, path = link[1], link[2]
    return (
        f"[{words}]({repository}/blob/v{__version__}/{path}{link[3] or ''})"
        if repository
        else f"{words} (`{path}` in the repository)"
    )


def leaderboard() -> str:
    """The page of the records in the repository; the tests name a smaller folder by ``DOCS_LEADERBOARD``."""
    from proofmap.bench.leaderboard import Leaderboard, page_html

    return page_html(Leaderboard(os.environ.get("DOCS_LEADERBOARD", ROOT / "leaderboard")))


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


def on_page_content(html: str, **_: Any) -> str:
    """A picture leads to itself at full size: on a telephone its captions are small."""
    return re.sub(r'(<img [^>]*src="([^"]+)"[^>]*>)', r'<a class="picture" href="\2">\1</a>', html)


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
