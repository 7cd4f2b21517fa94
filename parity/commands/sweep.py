"""`parity sweep`."""

from __future__ import annotations

import os
import platform
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console

from ...runtime.visible import visible_name
from ..report.layout import echo, print_lines
from ..support.files import make_folder
from ..support.times import time_in_words
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import LIMITS, REPORTS, WHERE
from .arguments.parsing import parse_size
from .command import INTERRUPTED, Command, command
from .outcome import require_outputs
from .project_options import run_options, say_options
from .run import run
from .sweep_comparison import SHOWN, compare_sweep_files

if TYPE_CHECKING:
    from ..jobs.sweeping.result import Result
    from ..jobs.sweeping.store import Store
    from ..jobs.sweeping.sweep import Machines
    from ..results.origin import Origin

PACKAGES = ("cellbridge", "torch", "onnx", "onnxruntime", "onnxruntime-gpu", "numpy", "transformers", "jax", "flax")
RUN_OPTIONS = f"{__name__}.run_options"  # in the context's `meta`
WHOLE_COMMAND = f"{__name__}.whole_command"  # in the same
OF_A_SWEEP = ("json_file", "junit_file", "html_file", "repro", "onnx_file")
"""Options of `parity run` that write files, which a sweep writes itself or not at all."""


class SweepCommand(Command):
    """A command whose arguments after `--` are options of `parity run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the options of `parity run` away, and check them."""
        index = args.index("--") if "--" in args else len(args)
        own_args, options = args[:index], args[index + 1 :]
        with run.make_context("run", ["model.py", *options], parent=ctx.find_root()) as of_run:
            if models := [model for model in of_run.params["models"] if model != "model.py"]:
                raise click.UsageError(f"after -- there are options of parity run, not models: {models[0]!r}", ctx)
            names = [p.opts[0] for p in run.params if p.name in OF_A_SWEEP and of_run.params.get(p.name) is not None]
        if names:
            raise click.UsageError(f"{names[0]} is for one model: give it before --, if parity sweep has it", ctx)
        say_options(of_run, [])
        ctx.meta[RUN_OPTIONS] = run_options(ctx, options)
        ctx.meta[WHOLE_COMMAND] = shlex.join(["parity", str(ctx.info_name), *args])
        return super().parse_args(ctx, own_args)


@dataclass(frozen=True)
class Results(ArgumentGroup):
    """What is judged, and where the results are."""

    title = "Sweep"
    output: str = option(
        "-o", "--output", default="sweep.db", show_default=True, metavar="FILE", help="The SQLite file of results."
    )
    rerun: str | None = option(
        "--rerun",
        type=click.Choice(["failed", "all"]),
        help="Judge models again that have a result: those without parity, or all.",
    )
    changed_since: str | None = option(
        "--changed-since", metavar="REV", help="Judge models again whose files have changed since a revision of git."
    )
    compare: bool = option(
        "--compare", is_flag=True, help="Compare two files of results: which models have become worse, or better."
    )


@dataclass(frozen=True)
class Workers(ArgumentGroup):
    """Where models are judged."""

    title = WHERE
    workers: int | None = option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes at a time. Default: one for every two CPUs.",
    )
    ray: str | None = option(
        "--ray",
        metavar="ADDRESS",
        help="Judge on a Ray cluster instead: auto for that which runs here, HOST:PORT, or local to start one.",
    )


@dataclass(frozen=True)
class CaseLimits(ArgumentGroup):
    """The limits of each model."""

    title = LIMITS
    case_seconds: float = option(
        "--case-seconds",
        type=click.FloatRange(min=0, min_open=True),
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="The longest time for one model.",
    )
    case_memory: int | None = option(
        "--case-memory",
        metavar="SIZE",
        callback=parse_size,
        help="The most memory for one model (8GB). Default: that of this machine, divided by the workers.",
    )


@dataclass(frozen=True)
class Reports(ArgumentGroup):
    """What is shown."""

    title = REPORTS
    folder: str | None = option(
        "--html", metavar="FOLDER", help="Write a page on each model, and an overview, index.html."
    )
    json_file: str | None = option("--json", metavar="FILE", help="Write the results as JSON.")
    junit_file: str | None = option(
        "--junit", metavar="FILE", help="Write the results as JUnit XML, a test case for each model."
    )
    verbose: bool = option(
        "-v", "--verbose", is_flag=True, help="List every model in the summary, and show tracebacks."
    )


@command("sweep", cls=SweepCommand)
@click.argument("models", metavar="MODEL... [-- OPTIONS OF PARITY RUN]", nargs=-1, required=True)
def sweep(models: tuple[str, ...], results: Results, workers: Workers, reports: Reports, limits: CaseLimits) -> None:
    """Judge many models with parity run, and keep the results.

    Each model is judged in a process of its own, and results are saved as they come.

    MODEL is anything that parity run takes. A folder stands for the model files and ONNX files in it, and in folders
    inside it. model.py:make_* and package.module:make_* stand for all functions with such names. A file may also define
    cases(), which yields names and functions that return a module and its inputs, or checks(), which yields names and
    functions that compare something themselves and raise AssertionError.

    A model that has a result isn't judged again, so an interrupted sweep continues where it stopped. A model that
    hangs, crashes or needs too much costs only its own result.

    With --compare, the two MODELs are files of results: parity sweep --compare old.db new.db. Exit code 1 means that
    something got worse.
    """
    if results.compare:
        compare_sweep_files(models, reports.verbose)
    require_outputs({"--output": results.output, "--json": reports.json_file, "--junit": reports.junit_file}, {})
    if reports.folder is not None:
        make_folder(reports.folder)
    from ..jobs.sweeping.changed import changed_models
    from ..jobs.sweeping.finding import find_models
    from ..jobs.sweeping.store import Store
    from ..jobs.sweeping.sweep import remaining
    from ..jobs.sweeping.sweep import sweep as judge_all
    from ..results.origin import Origin

    all_models = find_models(models)
    changed = None if results.changed_since is None else changed_models(all_models, results.changed_since)
    context = click.get_current_context()
    with Store.write(Path(results.output), context.meta[RUN_OPTIONS], _versions()) as store:
        waiting = remaining(all_models, store, results.rerun or "", changed)
        progress = _Progress(len(waiting), len(all_models), results.output)
        pages = None if reports.folder is None else Path(reports.folder)
        try:
            judge_all(waiting, store, _machines(workers, limits), pages, progress.say)
        except KeyboardInterrupt as error:
            echo(f"interrupted: {progress.done} of {len(waiting)} were judged; the same command goes on", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from error
        finally:
            by_model = store.results()
            judged = [by_model[model] for model in all_models if model in by_model]
            origin = Origin(versions=store.versions, command=context.meta[WHOLE_COMMAND])
            _write(store, judged, origin, reports)
    _finish(judged, origin, reports.verbose, results.output)


def _machines(workers: Workers, limits: CaseLimits) -> Machines:
    """Return where models are judged, with the share of this machine for each."""
    from ...runtime.memory import memory_size
    from ..jobs.sweeping.limits import Limits
    from ..jobs.sweeping.sweep import Machines

    cpus = os.cpu_count() or 1
    number = workers.workers or max(1, cpus // 2)
    memory = limits.case_memory or memory_size() // number
    return Machines(Limits(limits.case_seconds, memory, max(1, cpus // number)), number, workers.ray)


class _Progress:
    """Prints a line for each model, with an estimate of the time that is left."""

    def __init__(self, total: int, model_count: int, output: str) -> None:
        self.total, self.done, self.started = total, 0, time.monotonic()
        if total < model_count:
            judged = f"{model_count - total} of {model_count} models have a result already"
            echo(f"{judged}, in {output} (--rerun all judges again)")

    def say(self, result: Result) -> None:
        """Print the line of a result."""
        from ..report.html.page import MARKS

        self.done += 1
        seconds = (time.monotonic() - self.started) / self.done * (self.total - self.done)
        rest = f", about {time_in_words(seconds)} left" if self.done < self.total else ""
        reason = "" if result.holds_in_full else f": {result.reason}"
        mark = MARKS[result.outcome]
        name = visible_name(result.model)
        echo(f"{mark} {self.done} of {self.total}  {name}  {time_in_words(result.seconds)}{reason}{rest}")


def _write(store: Store, results: Sequence[Result], origin: Origin, reports: Reports) -> None:
    """Write the files that are asked for."""
    from ..jobs.sweeping.sweep import summaries
    from ..jobs.sweeping.views import write_json, write_junit
    from ..report.html import overview

    if reports.json_file is not None:
        write_json(store, results, origin, reports.json_file)
    if reports.junit_file is not None:
        write_junit(store, results, origin, reports.junit_file)
    if reports.folder is not None:
        overview.write(summaries(results, Path(reports.folder)), origin, Path(reports.folder))


def _finish(results: Sequence[Result], origin: Origin, verbose: bool, output: str) -> NoReturn:
    """Print the summary, and exit with 1 if parity fails in a model, or else the code of the first without a result."""
    from ...runtime.memory import size_in_words
    from ..report.detail import pluralize
    from ..report.html.page import MARKS
    from ..report.terminal import origin_lines

    counts: Counter[str] = Counter(result.outcome for result in results)
    echo("")
    for outcome in MARKS:  # the worst first
        of_outcome = [result for result in results if result.outcome == outcome]
        shown = of_outcome if verbose else [] if outcome == "holds" else of_outcome[:SHOWN]
        for result in shown:
            why = "" if result.holds_in_full else f": {result.cause or result.reason}"
            echo(f"{MARKS[outcome]} {visible_name(result.model)}{why}")
        if outcome != "holds" and len(of_outcome) > len(shown):
            echo(f"  ... and {len(of_outcome) - len(shown)} more (-v lists all)")
    words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in MARKS if counts[outcome])
    seconds, memory = sum(result.seconds for result in results), max((result.memory for result in results), default=0)
    took = f"{time_in_words(seconds)} of processes, {size_in_words(memory)} at most"
    echo(f"{pluralize(len(results), 'model')}: {words}; {took}; in {output}")
    if verbose:
        console = Console()
        print_lines(origin_lines(origin, console.width), console)
    codes = [
        2 if result.code < 0 or (result.outcome == "not judged" and result.code in (0, 1)) else result.code
        for result in results
    ]
    raise click.exceptions.Exit(1 if counts["fails"] else next(filter(None, codes), 0))


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter and are installed."""
    from importlib import metadata  # imports much, for which `--help` would wait

    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
