"""The command line: ``tidemill demo``, ``sql``, ``views``, ``explore`` and ``state``."""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import importlib
import runpy
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidemill import __version__
from tidemill.errors import GraphError, StateError, TidemillError, ViewError

if TYPE_CHECKING:
    from tidemill import Dataflow

YEAR: Final = 2013
DAYS: Final = 365
_OF_VIEWS: Final = {
    "refresh": "read what changed in the sources, and write what that changes in the views",
    "status": "what was read and written so far, and which sources have news",
    "history": "the refreshes so far",
    "explain": "how each view is computed, and what writing it costs",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 if all went well, 1 if not, 2 if it was not understood."""
    arguments = _parser().parse_args(argv)
    try:
        command: Callable[[argparse.Namespace], int] = arguments.command
        return command(arguments)
    except TidemillError as error:
        sys.stderr.write(f"tidemill: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidemill", description="Differential dataflow for Python.")
    parser.add_argument("--version", action="version", version=f"tidemill {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="demo|sql|views|explore|state")
    demo = commands.add_parser(
        "demo",
        help="keep a year of New York's flights up to date, day by day, and check the results",
        description="Loads New York's flights of 2013 up to a day, plays the days that follow and some corrections as "
        "epochs, and compares cost and results with computing everything anew. With Spark all epochs "
        "are also rendered at once. Needs: pip install 'tidemill[demo]', for Spark 'tidemill[demo,spark]'.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--start-day", type=_day, default="2013-12-18", metavar="DATE", help="first day to play")
    demo.add_argument("--days", type=_at_least_one, default=14, metavar="N", help="days to play")
    demo.add_argument("--history", type=_at_least_one, default=DAYS, metavar="N", help="days before to load at most")
    demo.add_argument("--seed", type=int, default=2013, help="for drawing the flights that are corrected")
    demo.add_argument("--recompute", type=_at_least_one, default=3, metavar="N", help="epochs to compute anew at")
    engines = ("embedded", "reference", "spark")
    demo.add_argument("--engine", choices=engines, default="embedded", help="what keeps the results")
    demo.add_argument("--sql", action="store_true", help="a shop in SQL instead: a script of 60 lines, and its answers")
    told = "a lake of Delta tables instead, and a nightly job: late rows, a changed view, a kill"
    demo.add_argument("--views", action="store_true", help=told)
    demo.set_defaults(command=_demo)
    sql = commands.add_parser(
        "sql",
        help="tables and views in SQL that are kept up to date: a prompt, or a script",
        description="Reads statements from a file, from standard input, or from a prompt with history and completion "
        "(which needs: pip install 'tidemill[shell]'). A statement that changes rows is an epoch; SUBSCRIBE "
        "tells what it changes in a view.",
    )
    sql.add_argument("file", nargs="?", type=Path, help="a script; without one standard input, or the prompt")
    sql.add_argument("--dialect", default="spark", help="spark, postgres, duckdb, materialize or risingwave")
    sql.add_argument("--load", type=Path, metavar="FOLDER", help="what \\save wrote, to begin with")
    sql.set_defaults(command=_sql)
    views = commands.add_parser(
        "views",
        help="refresh views over tables, which a program declares, or say how they stand",
        description="Runs a program that makes a tm.Views, with its sources and views, and then does what is asked.",
    )
    views.add_argument("file", type=Path, help="the program")
    asked = views.add_mutually_exclusive_group(required=True)
    for name, what in _OF_VIEWS.items():
        asked.add_argument(f"--{name}", dest="asked", action="store_const", const=name, help=what)
    views.add_argument("--full", action="store_true", help="with --refresh: all of it anew")
    views.set_defaults(command=_views)
    explore = commands.add_parser(
        "explore",
        help="make a page of the record of a run, and open it",
        description="Reads what run.record(path) wrote and writes it as one HTML page beside it, which needs neither "
        "Python nor a network, and opens it in the browser.",
    )
    explore.add_argument("record", type=Path, metavar="path", help="what run.record(path) wrote")
    explore.add_argument("--to", type=Path, metavar="page.html", help="where the page is written; else beside it")
    explore.add_argument("--no-open", action="store_true", help="do not open it")
    explore.set_defaults(command=_explore)
    state = commands.add_parser(
        "state",
        help="say what a folder of state holds, and what starting a dataflow on it would come to",
        description="Reads what a run with state=folder wrote. With a dataflow, given as in 'shop.flows:flow' (or a "
        "function that returns it), says which operators it would go on with, which are new and loaded, and which are "
        "dropped. Changes nothing.",
    )
    state.add_argument("folder", type=Path, help="what was given as state=")
    state.add_argument("--flow", metavar="module:name", help="a dataflow, or a function that returns one")
    state.set_defaults(command=_state)
    return parser


def _state(arguments: argparse.Namespace) -> int:
    from tidemill.renderer.durable.start import held_in  # noqa: PLC0415 - as for the demo

    said = held_in(arguments.folder) if arguments.flow is None else _flow(arguments.flow).plan(arguments.folder)
    sys.stdout.write(f"{said}\n")
    return 0


def _flow(given: str) -> Dataflow:
    """Return the dataflow that a module has under a name."""
    from tidemill import Dataflow  # noqa: PLC0415 - as for the demo

    module, _, name = given.partition(":")
    sys.path.insert(0, "")  # as for python -m
    try:
        found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"--flow {given}: {error}; expected a module and the name of a dataflow in it, as in shop.flows:flow"
        raise GraphError(msg) from error
    flow = found if isinstance(found, Dataflow) or not callable(found) else found()
    if not isinstance(flow, Dataflow):
        msg = f"--flow {given}: expected a tm.Dataflow, or a function that returns one, not {type(flow).__name__}"
        raise GraphError(msg)
    return flow


def _explore(arguments: argparse.Namespace) -> int:
    from tidemill.renderer.diagram.explorer_page import page_of_record  # noqa: PLC0415 - as for the demo

    text = page_of_record(arguments.record)
    page: Path = arguments.to or arguments.record.with_name(f"{arguments.record.name}.html")
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{page} cannot be written ({error.strerror}): say where else with --to page.html"
        raise StateError(msg) from error
    sys.stdout.write(f"{page}\n")
    if not arguments.no_open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def _sql(arguments: argparse.Namespace) -> int:
    from tidemill.shell.prompt import prompt  # noqa: PLC0415 - as for the demo
    from tidemill.shell.session import SqlSession  # noqa: PLC0415
    from tidemill.shell.shell import run_script  # noqa: PLC0415

    session = SqlSession(arguments.dialect)
    if arguments.load is not None:
        session.load(arguments.load)
    if arguments.file is None and sys.stdin.isatty():
        return prompt(session, f"tidemill {__version__}: statements end with a semicolon, \\? helps, \\q ends.")
    try:
        text = sys.stdin.read() if arguments.file is None else arguments.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{arguments.file} cannot be read: {error}"
        raise StateError(msg) from error
    return run_script(text, session)


def _views(arguments: argparse.Namespace) -> int:
    from tidemill.views.views import Views  # noqa: PLC0415 - as above

    found = [value for value in runpy.run_path(str(arguments.file)).values() if isinstance(value, Views)]
    if len(found) != 1:
        msg = f"{arguments.file} makes {len(found) or 'none'} at its top: expected one tm.Views there, under one name"
        raise ViewError(msg)
    with found[0] as views:
        given = {"full": arguments.full} if arguments.asked == "refresh" else {}
        answer = getattr(views, arguments.asked)(**given)
        sys.stdout.write("\n".join(map(str, answer)) if isinstance(answer, list) else f"{answer}")
        sys.stdout.write("\n")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.sql:
        from tidemill.shell.session import SqlSession  # noqa: PLC0415 - as above
        from tidemill.shell.shell import run_script  # noqa: PLC0415

        script = Path(__file__).parent / "demo" / "shop.sql"
        return run_script(script.read_text(encoding="utf-8"), SqlSession(), echo=True)
    if arguments.views:
        from tidemill.demo import views  # noqa: PLC0415 - as above

        views.require_extras()
        return views.run()
    from tidemill.demo.data import require_extras  # noqa: PLC0415 - the command line starts without what it may not need

    require_extras()
    from tidemill.demo.main import Options, run  # noqa: PLC0415 - needs the extra

    return run(
        Options(
            start=arguments.start_day.timetuple().tm_yday,
            days=arguments.days,
            history=arguments.history,
            seed=arguments.seed,
            recompute=arguments.recompute,
            engine=arguments.engine,
        )
    )


def _day(text: str) -> dt.date:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.year != YEAR:
        msg = f"{text!r} is not a day of {YEAR}, such as {YEAR}-12-18"
        raise argparse.ArgumentTypeError(msg)
    return day


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} is not a number from 1 on"
        raise argparse.ArgumentTypeError(msg)
    return int(text)
