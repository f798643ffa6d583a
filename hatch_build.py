"""Build hook: put ahead-of-time compiled kernels into the wheel where this environment can compile them.

It can where numba, setuptools and a C compiler are importable or on PATH, which pip's isolated builds are not: those make a pure
wheel, and so does any failure here. A pure wheel works as well: the same kernels are then compiled by numba on first use. Build
with ``pip wheel --no-build-isolation`` for a compiled one. Machine code in a wheel must run on machines other than the builder's,
so it is made for a stated baseline, ``TSDB_TARGET_CPU`` (default: x86-64-v2, or what LLVM calls generic elsewhere).
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is not a dependency of ours, so it has no types here
    """Adds each kernel package's ``_compiled`` extension and its stamp to a standard wheel."""

    PLUGIN_NAME = "custom"
    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or note why not; never fail the build."""
        if version != "standard" or os.environ.get("TSDB_PURE_WHEEL"):
            return
        self._scratch = Path(tempfile.mkdtemp(prefix="tsdb-kernels-"))
        try:
            built = self._compile(self._scratch)
        except Exception as problem:  # noqa: BLE001  whatever the compiler says, a pure wheel is right
            self.app.display_info(f"kernels not compiled ahead of time, numba will compile them on first use: {problem}")
            return
        for folder, package in built:
            build_data["force_include"][str(folder)] = package
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled: it is in the wheel now, and the source tree keeps its own."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _compile(self, scratch: Path) -> list[tuple[Path, str]]:
        root = Path(self.root)
        sys.path[:0] = [str(root), str(root / "format"), str(root / "cli")]
        build = importlib.import_module("tsdb_format.kernels.build")
        baseline = "x86-64-v2" if platform.machine() in ("x86_64", "AMD64") else "generic"
        made: list[tuple[Path, str]] = []
        for package in build.PACKAGES:
            folder = scratch / package
            folder.mkdir()
            extension: Path | None = build.build(package, os.environ.get("TSDB_TARGET_CPU", baseline), folder)
            if extension is None:
                continue
            inside = package.replace(".", "/")
            made += [(path, f"{inside}/{path.name}") for path in (extension, extension.with_name("_compiled.stamp"))]
        return made
