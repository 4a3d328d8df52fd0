"""Copies of snapshots on this host, from which warm searches are served.

A copy is derived data: PostgreSQL alone is the truth, the folder may be removed at any time, and
where there is no copy, for whatever reason, the search goes to PostgreSQL. ``find`` never waits;
what it does not find a thread of this process makes ready.
"""

from __future__ import annotations

from retrieval.host_copies.files import Copy
from retrieval.host_copies.keeping import HostCopies

__all__ = ["Copy", "HostCopies", "copies"]

copies = HostCopies()
