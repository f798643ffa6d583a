"""The command line: one module a command, on click. Imports tsdb, never the other way."""
