"""The registry's settings with the view that benchmarks/resolve.py compares with; never served."""

from registry.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks._resolve_urls"
