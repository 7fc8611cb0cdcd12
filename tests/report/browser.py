"""A headless Chromium, where there is one."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="needs Chromium: install it (Debian: apt-get install chromium)"
)
WIDE, PHONE = (1360, 900), (360, 740)
# Without these it looks for updates and hosts of its own; the sandbox does not start for root.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, with a profile that nobody used before."""
    with tempfile.TemporaryDirectory(prefix="vlmopt-chromium-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=PROGRAM, args=[*_FLAGS, f"--disk-cache-dir={folder}"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Seen:
    """A page in a context of its own, and all that it asked for and complained of."""

    def __init__(self, browser: Browser, file: Path, size: tuple[int, int] = WIDE, **options: object) -> None:
        width, height = size
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": height}, **options
        )
        self.address = file.as_uri()
        self.requests: list[str] = []
        self.failed: dict[str, str | None] = {}
        self.complaints: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.update({request.url: request.failure}))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(self.address)

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.context.close()
        foreign = [url for url in self.requests if url != self.address and not url.startswith("data:")]
        assert foreign == []
        assert self.complaints == []
