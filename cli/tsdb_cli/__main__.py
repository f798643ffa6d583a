"""``python -m tsdb_cli``: the same as the installed ``tsdb``."""

from tsdb_cli.main import main

if __name__ == "__main__":
    main()
