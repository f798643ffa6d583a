"""The source tree itself: roots, import direction, sizes, words. What reviewers would otherwise have to look for."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ["tsdb", "format/tsdb_format", "cli/tsdb_cli"]
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500
#: What each import root may import of the others.
ALLOWED = {"tsdb_format": {"tsdb_format"}, "tsdb": {"tsdb_format", "tsdb"}, "tsdb_cli": {"tsdb_format", "tsdb", "tsdb_cli"}}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}


def _settings() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _files(pattern: str = "") -> list[Path]:
    """Tracked files and new ones that are not ignored; all files where this is no checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [
            str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if not any(q.startswith(".") for q in p.relative_to(ROOT).parts)
        ]
    paths = [ROOT / name for name in listed if name.endswith(pattern)]
    return sorted(path for path in paths if path.is_file())


def _package_files() -> list[Path]:
    return [path for path in _files(".py") if any(path.is_relative_to(ROOT / package) for package in PACKAGES)]


def test_every_tool_knows_the_same_roots() -> None:
    settings = _settings()
    tool = settings["tool"]
    parents = [str(Path(package).parent) for package in PACKAGES]
    assert tool["hatch"]["build"]["targets"]["wheel"]["packages"] == PACKAGES
    assert tool["hatch"]["build"]["targets"]["wheel"]["dev-mode-dirs"] == parents
    assert [path for path in tool["ruff"]["src"] if path != "tests"] == parents
    assert [path.removeprefix("$MYPY_CONFIG_FILE_DIR").lstrip("/") or "." for path in tool["mypy"]["mypy_path"]] == parents
    assert [path for path in tool["mypy"]["files"] if path in PACKAGES] == PACKAGES
    assert [path for path in tool["pytest"]["ini_options"]["pythonpath"] if path != "tests"] == parents
    assert tool["coverage"]["run"]["source"] == PACKAGES
    assert {Path(package).name for package in PACKAGES} <= set(tool["ruff"]["lint"]["isort"]["known-first-party"])
    for package in PACKAGES:
        assert (ROOT / package / "__init__.py").is_file()
        assert (ROOT / package / "py.typed").is_file(), f"{package} does not say that it is typed"


def test_imports_go_one_way() -> None:
    wrong = []
    for path in _package_files():
        root = next(Path(package).name for package in PACKAGES if path.is_relative_to(ROOT / package))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno} is a relative import"
                names = [node.module or ""]
            imported = {name.partition(".")[0] for name in names} & set(ALLOWED)
            wrong += [f"{path.relative_to(ROOT)}:{node.lineno} imports {name}" for name in imported - ALLOWED[root]]
    assert not wrong


def test_functions_and_modules_stay_readable() -> None:
    wrong = []
    for path in _files(".py"):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        name = path.relative_to(ROOT)
        if lines > MODULE_LINES_MAX:
            wrong.append(f"{name} has {lines} lines")
        if path.stem in VAGUE_NAMES:
            wrong.append(f"{name} says nothing about what is in it")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    wrong.append(f"{name}:{node.lineno} {node.name}() has {length} lines")
    assert not wrong


def test_nothing_unfinished_and_no_place_of_one_machine() -> None:
    unfinished = re.compile(
        r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|raise NotImplemented" + r"Error|type: ign" + r"ore(?!\[)"
    )
    places = re.compile(r"(?<![\w.])/(" + "work|farm|root|home/[a-z]+|Users" + r")/")
    wrong = []
    for path in _files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if places.search(line) or (path.suffix == ".py" and unfinished.search(line)):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not wrong


def test_init_modules_hold_no_code() -> None:
    """``__init__`` is a docstring and re-exports; a lazy ``__getattr__`` counts as one."""
    wrong = []
    for path in _package_files():
        if path.name != "__init__.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} does not say what its package is"
        code = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.For | ast.While)]
        wrong += [f"{path.relative_to(ROOT)}:{node.lineno}" for node in code]
    assert not wrong


def test_documents_keep_their_length() -> None:
    limits = {"ARCHITECTURE.md": 200, "CONTRIBUTING.md": 60}
    for name, limit in limits.items():
        assert (ROOT / name).read_text(encoding="utf-8").count("\n") <= limit, name


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    declared = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())
    described = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert declared == described
    assert {"demo", "test", "lint", "types", "bench", "peers", "warm"} <= described


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "format/SPEC.md"])
def test_links_between_documents_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{document} links to {target}"
