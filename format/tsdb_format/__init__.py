"""The bytes of tsdb: types, statistics, encodings, pages, files, resources. No SQL, no database.

``writer.write_file`` makes a sealed ``.tsf`` file from sorted columns, ``reader.TsFile`` reads one; ``format/SPEC.md`` describes
the bytes.
"""
