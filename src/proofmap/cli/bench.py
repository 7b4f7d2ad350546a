"""``bench``: lists the tasks of ProofBench, judges a method on a task, adds a checked record to the leaderboard, and writes its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proofmap.bench.leaderboard import Leaderboard
from proofmap.bench.record import Record
from proofmap.bench.running import run_task
from proofmap.bench.submission import submit
from proofmap.bench.task import VERSION, Task
from proofmap.cli import options
from proofmap.cli.console import print_result, shown_path, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import DATA_FOLDER, check_output, output_file
from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.study.watchers import watchers_for


def _list(target: str | None, data: Path) -> None:
    tasks = [Task.named(name) for name in (Task.names() if target is None else [target])]
    rows = [
        [
            task.name,
            "something is missing" if task.missing(data) else "ready",
            str(task.settings["images"]["number"]),
            ", ".join(task.learned),
            ", ".join(task.unseen),
            f"{task.budget:,}",
            task.title,
        ]
        for task in tasks
    ]
    header = ["task", "state", "images", "fills", "never learned on", "budget", "what it is"]
    print_result(f"{VERSION}\n\n{tables.aligned(header, rows)}")
    for task in tasks:
        for need in task.missing(data):
            print_result(f"{task.name} needs {need.describe(data)}")
        if target is not None:
            print_result(
                f"data: {task.source}\ndigest of the images: {task.data_digest}\ndigest of the task: {task.digest}"
            )


def _table(target: str | None, folder: Path, out: Path | None) -> None:
    leaderboard = Leaderboard(folder)
    boards = leaderboard.boards if target is None else {target: leaderboard.board(target)}
    print_result("\n\n".join(board.table() for board in boards.values()))
    if out is not None:
        page = leaderboard.write_page(output_file(out, such_as="leaderboard.html"))
        stderr.print(f"written: {shown_path(page)}")


ACTIONS = ("list", "run", "submit", "table")
ACTION_HELP = (
    "[bold]list[/]: the tasks; [bold]run[/] TASK: judge a method and write its record; [bold]submit[/] RECORD: check a record and add it "
    "to the leaderboard; [bold]table[/]: the leaderboard."
)


def bench(
    action: Annotated[str, options.choice_argument(ACTIONS, ACTION_HELP, metavar="ACTION")],
    target: Annotated[
        str | None,
        typer.Argument(
            help="A task, or the record to submit.",
            show_default=False,
            metavar="TASK|RECORD",
            autocompletion=lambda incomplete: [name for name in Task.names() if name.startswith(incomplete)],
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            *options.METHOD,
            help="The method to judge, with settings as name:key=value, or FILE.py:NAME.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name on the leaderboard.", show_default="the method's title")
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Folder with the data and weights that tasks need.")
    ] = DATA_FOLDER,
    out: Annotated[
        Path | None,
        options.path_option(
            "For run: the run directory. For table: the HTML file to write.", show_default="proofbench/TASK"
        ),
    ] = None,
    leaderboard: Annotated[Path, typer.Option(help="Folder with the records of the leaderboard.")] = Path(
        "leaderboard"
    ),
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Run the code that a submitted record brings. Read it first."),
    ] = False,
    maps: Annotated[
        bool,
        typer.Option(
            "--maps", help="For run: also write the maps, as a .safetensors file beside the record."
        ),
    ] = False,
    device: Annotated[str | None, options.DEVICE] = None,
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    if action == "list":
        _list(target, data)
        return
    if action == "table":
        _table(target, leaderboard, out)
        return
    watchers = watchers_for(stderr, quiet)
    if action == "submit":
        if target is None:
            raise InputError("no record was named: proofmap bench submit RECORD; bench run writes it")
        record = Record.read(target)
        path = submit(
            record,
            leaderboard,
            data=data,
            device=options.check_device(device),
            allow_code=allow_code,
            watchers=watchers,
        )
        print_result(path)
        stderr.print(
            f"{record.name} is on the leaderboard in {leaderboard}; proofmap bench table --out leaderboard.html shows it"
        )
        return
    if target is None:
        raise InputError(
            "no task was named: proofmap bench run TASK --method METHOD; see proofmap bench list"
        )
    task = Task.named(target)
    if method is None:
        raise InputError(
            "no method was named: give --method, such as --method grad-cam or --method mine.py:mine"
        )
    folder = check_output(out or Path("proofbench") / task.name)
    record = run_task(
        task,
        method,
        folder,
        data=data,
        name=name,
        device=options.check_device(device),
        watchers=watchers,
        command=options.command_line(),
        maps=maps,
    )
    written = shown_path(record.write(folder / "records" / record.file))
    print_result(written)
    over = f", over the budget of {task.budget:,}" if record.passes > task.budget else ""
    code = " --allow-code" if record.method["files"] else ""
    stderr.print(
        f"{record.name} on {task.name}: {counted(record.passes, 'pass')} for an image{over}, {record.seconds:.0f} s. "
        f"Check it and add it to the leaderboard with: proofmap bench submit {written}{code}"
    )
