"""The catalog: tables and their columns, and the devices of each table."""
