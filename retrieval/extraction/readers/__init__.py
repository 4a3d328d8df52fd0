"""One module per kind of document; they run in the limited child process only.

Each has a function that takes the bytes and a ``Reading`` and writes what it finds to it; it
raises ExtractionFailed for what it understands, and any other exception means "unreadable".
"""
