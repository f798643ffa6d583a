"""The version says the same everywhere."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

import tsdb
from tsdb.version import __version__

ROOT = Path(__file__).resolve().parent.parent.parent


def test_build_reads_the_version_that_the_package_reports() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["hatch"]["version"]["path"] == "tsdb/version.py"
    assert "version" in settings["project"]["dynamic"]
    assert tsdb.__version__ == __version__


def test_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == __version__


def test_installed_metadata_agrees() -> None:
    try:
        installed = importlib.metadata.version("tsdb")
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("tsdb is not installed: run the tests with `make test`")
    assert installed == __version__
