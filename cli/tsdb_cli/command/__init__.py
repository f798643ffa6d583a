"""One module a command; each defines ``command``, a click command of the module's name. They are imported when they are run."""
