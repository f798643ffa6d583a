"""Storage: the database directory, its manifest and lock, snapshots, and the path from a batch to files."""
