"""The tables of a SQLite file: reading it, and finding keys, references and kinds of columns.

::

    sqlite_file, tables                     the file, and its tables
    schema_analysis, foreign_keys           keys and references: declared,
    inferred_references, references_file    inferred, or given by a file
    values, sampling, names_file            kinds of columns, records like those found, names given by a file
    notes                                   what was left out, changed or inferred
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
