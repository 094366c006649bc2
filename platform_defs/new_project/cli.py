"""`tidegate init`: write a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_line

if TYPE_CHECKING:
    from platform_defs.new_project.files import Project

MERGE = "Merge Tidegate into your definitions: defs = dg.Definitions.merge(defs, tidegate.definitions())"
STEPS = ("tidegate stack up", "tidegate produce web_page_views --count 1000")
LAST = ("tidegate verify web_page_views", "tidegate ui up")


def init(
    folder: Annotated[Path, typer.Argument(help="The project's folder; created if it is missing.")] = Path(),
    output: OutputOption = Output.human,
) -> None:
    """Write a small working project, or what a Dagster project lacks.

    A new project gets pyproject.toml, definitions.py, workspace.yaml,
    dagster.yaml, .gitignore and a first contract. An existing Dagster project
    gets a contract and dagster.yaml (unless DAGSTER_HOME is set), and a
    component if it is a project of dg. No file is overwritten.

    \b
    JSON: folder, written, kept (paths in it), next (commands or sentences)
    """
    from platform_defs.new_project.files import write_project

    project = write_project(folder)
    steps = _next(project)
    document = {
        "folder": str(folder),
        "written": [str(path) for path in project.written],
        "kept": [str(path) for path in project.kept],
        "next": steps,
    }
    print_answer(document, lambda: _show(project, steps), output)


def _next(project: Project) -> list[str]:
    """Return what to do next: commands, and a sentence if a user has to merge definitions."""
    change = [] if project.folder.resolve() == Path.cwd() else [f"cd {project.folder}"]
    merge = [] if project.has_tidegate else [MERGE]
    return [*change, *merge, *STEPS, f"dagster asset materialize {project.loads} --select 'group:\"web\"'", *LAST]


def _show(project: Project, steps: list[str]) -> None:
    for path in project.written:
        print_line(f"wrote {path}")
    for path in project.kept:
        print_line(f"kept {path}, which was there")
    print_line("\nNext:")
    for step in steps:
        print_line(f"  {step}")
