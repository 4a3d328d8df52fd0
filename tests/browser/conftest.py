"""A real browser on a real server with a real worker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "a-long-enough-secret"
# Nothing that is waited for is a promise of time.
_PATIENCE_MS = 180_000


@dataclass
class Surfer:
    """A signed-in person at a browser; ``complaints`` is what the browser had to say."""

    page: Page
    base_url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto(self.base_url + address)

    def tab(self, label: str) -> None:
        self.page.click(f".registry-tabs >> text={label}")

    def press(self, label: str) -> None:
        self.page.get_by_role("button", name=label, exact=True).click()


@pytest.fixture
def ada(transactional_db: None) -> User:
    """Made before Playwright starts: in its event loop Django would open another connection."""
    return User.objects.create_superuser("ada", password=PASSWORD)


@pytest.fixture
def chromium() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.fail("The browser tests need Chromium: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(params=["javascript", "no javascript"])
def surfer(
    request: pytest.FixtureRequest,
    ada: User,
    live_server: object,
    worker: object,
    chromium: Browser,
) -> Iterator[Surfer]:
    """The superuser ada, signed in by the form, once with JavaScript and once without."""
    context = chromium.new_context(
        java_script_enabled=request.param == "javascript", viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(_PATIENCE_MS)
    expect.set_options(timeout=_PATIENCE_MS)
    page = context.new_page()
    found = Surfer(page, str(live_server))
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on(
        "request",
        lambda sent: (
            None
            if sent.url.startswith(found.base_url)
            else found.complaints.append(f"asked {sent.url}")
        ),
    )
    page.on(
        "response",
        lambda got: (
            found.complaints.append(f"{got.status} {got.url}")
            if got.status >= 400 and "favicon" not in got.url
            else None
        ),
    )
    found.open("/admin/")
    page.fill("#id_username", "ada")
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")
    yield found
    context.close()
