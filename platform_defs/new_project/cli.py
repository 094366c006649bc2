"""`tidegate init`: write a project."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_line

if TYPE_CHECKING:
    from platform_defs.new_project.files import Project

MERGE = "Merge Tidegate into your definitions: defs = dg.Definitions.merge(defs, tidegate.definitions())"
BESIDE = (
    "No Dagster project was found here, so a new one was written next to your files. If you have one elsewhere, run "
    "tidegate init in its folder, which has workspace.yaml, definitions.py, or [tool.dagster] or [tool.dg] in "
    "pyproject.toml"
)
PYPROJECT = (
    'Add to pyproject.toml: the dependency "tidegate[local]", and [tool.dagster] with module_name = "definitions"'
)


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
    """Return what to do next: commands, and sentences for what a user has to decide or write."""
    steps = [BESIDE] if project.is_new and project.had_files else []
    if project.folder.resolve() != Path.cwd():
        steps.append(f"cd {quote(str(project.folder))}")
    if project.is_new and Path("pyproject.toml") in project.kept:
        steps.append(PYPROJECT)
    if not project.has_tidegate:
        steps.append(MERGE)
    if project.first is None:
        contracts = project.contracts.resolve()
        repair = f"Add a contract to {contracts}, or correct those in it: tidegate contract validate"
        return [*steps, repair, "tidegate stack up", "tidegate ui up"]
    pipeline, group = project.first.pipeline, project.first.domain
    steps += ["tidegate stack up", f"tidegate produce {pipeline} --count 1000"]
    verify, ui = f"tidegate verify {pipeline}", "tidegate ui up"
    if project.loads is None:
        return [*steps, ui, f"Materialize the assets of the group {group} in the UI", verify]
    return [*steps, f"dagster asset materialize {project.loads} --select 'group:\"{group}\"'", verify, ui]


def _show(project: Project, steps: list[str]) -> None:
    for path in project.written:
        print_line(f"wrote {path}")
    for path in project.kept:
        print_line(f"kept {path}, which was there")
    print_line("\nNext:")
    for step in steps:
        print_line(f"  {step}")
