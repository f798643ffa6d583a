"""The version of the distribution: read by the build, by ``tsdb.__version__`` and by ``tsdb --version``."""

__version__ = "0.5.1"
