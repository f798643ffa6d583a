"""Execution: plans become batches of vectors. Scans read through selections and lanes; a TopK tightens the filter they consult."""
