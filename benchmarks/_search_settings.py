"""The registry's settings with the views that benchmarks/search.py compares with; never served."""

from registry.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks._search_urls"
