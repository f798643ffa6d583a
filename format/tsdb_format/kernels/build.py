"""Compile every kernel of a package ahead of time into its ``_compiled`` extension.

Run by the wheel's build hook and by ``tsdb warm --ahead-of-time``, which runs ``python -m tsdb_format.kernels.build PACKAGE CPU``
for all packages at once; needs numba, setuptools and a C compiler. The extension loads in about a millisecond and imports no
numba. Its stamp names the sources, so that a stale build is never used.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

from tsdb_format.kernels import registry

#: The kernel packages of the distribution, in import order.
PACKAGES = ("tsdb_format.kernels", "tsdb.exec.kernels")


def load(package: str) -> list[registry.Kernel]:
    """Import every kernel module of ``package`` and return the kernels they declare."""
    module = importlib.import_module(package)
    for entry in pkgutil.iter_modules(module.__path__):
        if entry.name not in ("build", "_compiled"):
            importlib.import_module(f"{package}.{entry.name}")
    return [kernel for kernel in registry.KERNELS.values() if kernel.module.rpartition(".")[0] == package]


def build(package: str, target_cpu: str = "host", folder: str | Path | None = None) -> Path | None:
    """Build ``package``'s extension into ``folder`` (default: beside its sources) and return its path; None without kernels."""
    kernels = load(package)
    if not kernels:
        return None
    module = importlib.import_module(package)
    sources = Path(module.__path__[0])
    folder = Path(folder or sources)
    stamp = folder / "_compiled.stamp"
    stamp.unlink(missing_ok=True)  # whatever happens to the extension from here on, only a complete one gets a stamp
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from numba.pycc import CC
        from numba.pycc import compiler as pycc_compiler

        plain_flags = pycc_compiler.Flags

        def flags_without_gil() -> object:
            flags = plain_flags()
            flags.release_gil = True
            return flags

        extension = CC("_compiled", source_module=module)
        extension.output_dir = str(folder)
        extension.target_cpu = target_cpu
        for each in kernels:
            extension.export(each.symbol, registry.numba_signature(each.signature))(each.linked())
        pycc_compiler.Flags = flags_without_gil
        try:
            extension.compile()
        finally:
            pycc_compiler.Flags = plain_flags
    stamp.write_text(registry.fingerprint(sources))
    return folder / str(extension.output_file)


if __name__ == "__main__":
    print(build(*sys.argv[1:]) or "")
