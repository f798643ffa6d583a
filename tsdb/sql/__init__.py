"""From SQL text to plans: statements, the binder for native plans, and the rewriting of everything else for DuckDB."""
