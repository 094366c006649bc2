"""`python -m tests.size OLD NEW`: how large and how readable the code of two checkouts is, as a Markdown table."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median, quantiles

from tests.docs.tables import table

SHIPPED = ("tidegate", "platform_defs", "resources", "assets")
FOLDERS = (*SHIPPED, "tests", "bench")
Function = ast.FunctionDef | ast.AsyncFunctionDef
GENERATED = re.compile(r"<!-- (?:generated: \w+|[^>]+: begin) -->.*?<!-- (?:end generated|[^>]+: end) -->", re.DOTALL)


@dataclass(frozen=True)
class Checkout:
    """A working tree of the project."""

    root: Path

    @cached_property
    def files(self) -> Mapping[Path, str]:
        """The text of each Python file, by its path within the tree."""
        found = (path for folder in FOLDERS for path in (self.root / folder).rglob("*.py"))
        return {path.relative_to(self.root): path.read_text() for path in sorted(found)}

    @cached_property
    def shipped(self) -> Mapping[Path, ast.Module]:
        """The shipped files, parsed."""
        return {path: ast.parse(text) for path, text in self.files.items() if path.parts[0] in SHIPPED}

    @cached_property
    def functions(self) -> Sequence[Function]:
        """All functions and methods of the shipped files."""
        return [node for tree in self.shipped.values() for node in ast.walk(tree) if isinstance(node, Function)]

    def lines(self, *folders: str) -> int:
        return sum(len(text.splitlines()) for path, text in self.files.items() if path.parts[0] in folders)

    def crowded(self) -> str:
        """Return the number of folders with more than twenty Python files, and the largest count."""
        counts = Counter(path.parent for path in self.files)
        return f"{sum(count > 20 for count in counts.values())} (largest: {max(counts.values())})"

    def cycles(self) -> int:
        """Return 1 if the packages of the shipped code import each other in a cycle, else 0; a package is a folder."""
        modules = {_module(path): path for path in self.shipped}
        graph: dict[Path, set[Path]] = {path.parent: set() for path in self.shipped}
        for path, tree in self.shipped.items():
            for name in _imported(tree):
                found = modules.get(name) or modules.get(name.rpartition(".")[0])
                if found is not None and found.parent != path.parent and len(path.parts) > 2:
                    graph[path.parent].add(found.parent)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError:
            return 1
        return 0

    def function_lengths(self) -> str:
        """Return the median, 90th percentile and maximum of the lines of a function."""
        lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in self.functions]
        return f"{median(lengths):.0f} / {quantiles(lengths, n=10)[-1]:.0f} / {max(lengths)}"

    def file_lengths(self) -> str:
        lengths = [len(text.splitlines()) for path, text in self.files.items() if path.parts[0] in SHIPPED]
        return f"{median(lengths):.0f} / {quantiles(lengths, n=10)[-1]:.0f} / {max(lengths)}"

    def with_one_caller(self) -> str:
        """Return the share of private functions whose name is used once in their file, beside the definition."""
        private, once = 0, 0
        for tree in self.shipped.values():
            nodes = list(ast.walk(tree))
            used = Counter(node.id for node in nodes if isinstance(node, ast.Name))
            used.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
            names = [node.name for node in nodes if isinstance(node, Function) and _is_private(node.name)]
            private += len(names)
            once += sum(used[name] == 1 for name in names)
        return f"{once / private:.0%} of {private:,}"

    def docstrings_that_begin_with(self, *words: str) -> int:
        nodes = [node for tree in self.shipped.values() for node in ast.walk(tree)]
        documented = [node for node in nodes if isinstance(node, Function | ast.ClassDef | ast.Module)]
        return sum((ast.get_docstring(node) or "").split(" ")[0] in words for node in documented)

    def words_of_docs(self, *, written_by_hand: bool = False) -> int:
        """Return the number of words; `written_by_hand`: without what is generated from code or by a benchmark."""
        texts = [page.read_text() for page in (self.root / "README.md", *(self.root / "docs").rglob("*.md"))]
        if written_by_hand:
            texts = [GENERATED.sub("", text) for text in texts]
        return sum(len(text.split()) for text in texts)

    def tests(self) -> int:
        """Return the number of test functions; a parametrized one counts once."""
        found = (text for path, text in self.files.items() if path.name.startswith("test_"))
        return sum(len(re.findall(r"^ *(?:async )?def test_", text, re.MULTILINE)) for text in found)


FIGURES: Mapping[str, Callable[[Checkout], object]] = {
    "Python files, shipped": lambda tree: len(tree.shipped),
    "lines, shipped": lambda tree: tree.lines(*SHIPPED),
    "lines of tests": lambda tree: tree.lines("tests"),
    "lines of benchmarks": lambda tree: tree.lines("bench"),
    "folders with more than 20 Python files": Checkout.crowded,
    "import cycles between packages": Checkout.cycles,
    "function length: median / p90 / max": Checkout.function_lengths,
    "file length: median / p90 / max": Checkout.file_lengths,
    "private functions with one caller": Checkout.with_one_caller,
    "docstrings that begin with What": lambda tree: tree.docstrings_that_begin_with("What"),
    "docstrings that begin with Whether": lambda tree: tree.docstrings_that_begin_with("Whether"),
    "words of README and docs": Checkout.words_of_docs,
    "of these, not generated from code or by a benchmark": lambda tree: tree.words_of_docs(written_by_hand=True),
    "test functions": Checkout.tests,
}


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(old: str, new: str) -> None:
    before, after = Checkout(Path(old)), Checkout(Path(new))
    rows = ((name, _shown(figure(before)), _shown(figure(after))) for name, figure in FIGURES.items())
    sys.stdout.write(table(("", "before", "after"), rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
