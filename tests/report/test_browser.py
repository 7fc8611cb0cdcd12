"""The review page in a real browser: silent, offline, light and dark, on a phone, by keyboard, on paper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from vlmopt.report.review import open_review, write_page

from .browser import PHONE, WIDE, Seen, chromium, needs_chromium
from .evidence import add_bench, add_profiles, add_verification
from .hostile import EVIL, TURNED, hostile_fork
from .plans import small_fork

pytestmark = needs_chromium

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
FOCUSED = "document.activeElement.id || document.activeElement.textContent.trim()"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(14, 17, 22)"
# Everything that a hand can reach, as the browser has it.
REACHABLE = """[...document.querySelectorAll('a[href], button, input, summary, [tabindex="0"]')]
    .filter((each) => each.checkVisibility()).length"""
TOO_WIDE = """[...document.querySelectorAll('body *')].filter((each) => !each.closest('.flame, dialog, .skip')
    && !each.classList.contains('visually-hidden') && each.getBoundingClientRect().right > innerWidth + .5)
    .map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A fresh fork, one with all that can be measured, one that breaks its promise, and a hostile one."""
    folder = tmp_path_factory.mktemp("pages")
    forks = {name: small_fork(folder / f"{name}-fork").path for name in ("fresh", "full", "broken")}
    forks["hostile"] = hostile_fork(folder / "hostile-fork").path
    for name in ("full", "broken"):
        add_verification(forks[name], holds=name == "full")
        add_bench(forks[name])
        add_profiles(forks[name])
    for name, fork in forks.items():
        write_page(open_review(fork), folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in forks}


@pytest.mark.parametrize("name", ["fresh", "full", "broken", "hostile"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_is_silent_and_fits(name: str, size: tuple[int, int], browser: Browser, pages) -> None:
    with Seen(browser, pages[name], size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.evaluate(TOO_WIDE) == []
        page.keyboard.press("o")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize(
    ("name", "scheme", "size"),
    [("full", "light", WIDE), ("full", "dark", PHONE), ("broken", "dark", WIDE), ("fresh", "light", PHONE)],
    ids=["full-light-wide", "full-dark-phone", "broken-dark-wide", "fresh-light-phone"],
)
def test_axe_finds_nothing(name: str, scheme: str, size: tuple[int, int], browser: Browser, pages) -> None:
    with Seen(browser, pages[name], size, color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()
        page.keyboard.press("?")
        found = Axe().run(page, context="dialog", options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()


def test_what_axe_finds_would_be_seen(browser: Browser, pages) -> None:
    with Seen(browser, pages["fresh"]) as page:
        page.evaluate("document.documentElement.removeAttribute('lang')")
        assert Axe().run(page, options={"runOnly": ["wcag2a"]}).violations_count == 1


def test_nothing_of_a_fork_runs_or_loads(browser: Browser, pages) -> None:
    with Seen(browser, pages["hostile"]) as page:
        assert page.evaluate("window.owned") is None
        assert page.locator("img, main script, main b").count() == 0
        assert EVIL in page.locator("h1").inner_text()
        code = page.locator("ins .l").first.inner_text()
        assert EVIL in code
        assert TURNED not in code
        assert "U+202E" in code
        assert "U+200B" in code
        assert page.locator("a[href^='javascript']").count() == 0


def test_the_policy_stops_what_gets_in(browser: Browser, pages) -> None:
    seen = Seen(browser, pages["fresh"])
    page = seen.page
    page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.owned = 3';
            document.body.append(script);
            document.body.insertAdjacentHTML('beforeend', '<img src="https://example.org/a.png">');
        }"""
    )
    sent = "fetch('https://example.org/').then(() => 'sent', (error) => error.name)"
    assert page.evaluate(sent) == "TypeError"
    assert page.evaluate("window.owned") is None
    assert seen.failed == {"https://example.org/a.png": "csp"}
    for kind in ("script-src", "img-src", "default-src"):
        assert any(kind in each for each in seen.complaints)
    seen.context.close()


@pytest.mark.parametrize(("scheme", "first", "other"), [("light", LIGHT, DARK), ("dark", DARK, LIGHT)])
def test_light_and_dark(scheme: str, first: str, other: str, browser: Browser, pages) -> None:
    with Seen(browser, pages["full"], color_scheme=scheme) as page:
        assert page.evaluate(BACKGROUND) == first
        button = page.get_by_role("button", name="Theme: system")
        seen = {}
        for _ in range(3):
            button = page.get_by_role("button", name="Theme: ")
            button.click()
            seen[button.inner_text()] = page.evaluate(BACKGROUND)
        assert seen == {"Theme: light": LIGHT, "Theme: dark": DARK, "Theme: system": first}
        while page.evaluate(BACKGROUND) != other:
            page.keyboard.press("t")
        page.reload()
        assert page.evaluate(BACKGROUND) == other


def test_every_control_is_reached_and_seen(browser: Browser, pages) -> None:
    with Seen(browser, pages["full"]) as page:
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED) == "Skip to the review"
        assert page.locator(".skip").bounding_box()["y"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate(FOCUSED) == "main"
        page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
        page.reload()
        expected, reached = page.evaluate(REACHABLE), 0
        while reached <= expected:
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body || document.activeElement === null"):
                break
            reached += 1
            style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style == "solid", page.evaluate(FOCUSED)
            box = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
            assert box["bottom"] > 0, page.evaluate(FOCUSED)
        assert reached == expected >= 20


def test_keys(browser: Browser, pages) -> None:
    with Seen(browser, pages["full"]) as page:
        headings = page.evaluate("[...document.querySelectorAll('h2, h3')].map((each) => each.id)")[:-1]
        assert walk(page, "j", len(headings)) == headings
        assert walk(page, "j", 1) == headings[-1:]
        assert walk(page, "k", 3) == headings[-2:-5:-1]
        page.evaluate("document.activeElement.blur(); scrollTo({top: 0, behavior: 'instant'})")
        changes = page.locator(".where").count()
        tops = []
        for _ in range(changes):
            page.keyboard.press("n")
            tops.append(page.evaluate("document.activeElement.getBoundingClientRect().top + scrollY"))
        assert len(tops) == 2
        assert tops == sorted(set(tops))
        page.keyboard.press("p")
        assert page.evaluate("document.activeElement.getBoundingClientRect().top + scrollY") == tops[0]


def walk(page: Page, key: str, times: int) -> list[str]:
    found = []
    for _ in range(times):
        page.keyboard.press(key)
        found.append(page.evaluate("document.activeElement.id"))
    return found


def test_the_keys_are_told_and_can_be_turned_off(browser: Browser, pages) -> None:
    with Seen(browser, pages["fresh"]) as page:
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        assert dialog.is_visible()
        page.keyboard.press("u")  # the page behind it is not touched
        assert page.locator("html.unified").count() == 0
        page.get_by_label("Use single keys").uncheck()
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        page.keyboard.press("u")
        assert page.locator("html.unified").count() == 0
        page.reload()
        page.keyboard.press("u")
        assert page.locator("html.unified").count() == 0
        page.get_by_role("button", name="Keys").click()
        page.get_by_label("Use single keys").check()
        page.get_by_role("button", name="Close").click()
        page.keyboard.press("u")
        assert page.locator("html.unified").count() == 1


def test_side_by_side_and_unified(browser: Browser, pages) -> None:
    places = """() => { const change = document.querySelector('.block:not(.same):not(.whole)');
        const [old, fresh] = ['del', 'ins'].map((tag) => change.querySelector(tag + ' > .l'))
            .map((line) => line.getBoundingClientRect());
        return [old.top === fresh.top, old.left === fresh.left, old.bottom <= fresh.top]; }"""
    same = ".same > .old .l"
    with Seen(browser, pages["fresh"]) as page:
        assert page.evaluate(places) == [True, False, False]
        assert page.locator(same).first.is_visible()
        page.get_by_role("button", name="Unified").click()
        assert page.evaluate(places) == [False, True, True]
        assert not page.locator(same).first.is_visible()
        page.get_by_role("button", name="Side by side").click()
        assert page.evaluate(places) == [True, False, False]
    with Seen(browser, pages["fresh"], PHONE) as page:
        assert page.evaluate(places) == [False, True, True]
        assert not page.locator(same).first.is_visible()
        assert not page.get_by_role("button", name="Unified").is_visible()


def test_the_mouse_takes_one_side(browser: Browser, pages) -> None:
    with Seen(browser, pages["fresh"]) as page:
        lines = page.locator(".file[open] .new .l code")
        lines.first.scroll_into_view_if_needed()
        start, end = lines.nth(0).bounding_box(), lines.nth(1).bounding_box()
        page.mouse.move(start["x"] + 45, start["y"] + 5)
        page.mouse.down()
        page.mouse.move(end["x"] + end["width"] - 5, end["y"] + end["height"] - 5, steps=5)
        page.mouse.up()
        chosen = page.evaluate("getSelection().toString()")
        assert "late" in chosen
        assert "/ 255" not in chosen


def test_a_flame_graph_by_key_and_mouse(browser: Browser, pages) -> None:
    with Seen(browser, pages["full"]) as page:
        box, told = page.locator(".flame").first, page.locator(".tip").first
        box.focus()
        for _ in range(4):
            page.keyboard.press("ArrowDown")
        assert told.inner_text() == "vllm/b.py:resize, 700.0 ms, 77.8%"
        page.keyboard.press("ArrowRight")
        assert told.inner_text().startswith("vllm/vlmopt_runtime/pack.py:pack, 200.0 ms")
        page.keyboard.press("Enter")
        frames = box.locator("g:visible")
        widths = frames.locator("rect").evaluate_all("all => all.map((each) => +each.getAttribute('width'))")
        assert len(set(widths)) == 1
        assert len(widths) == 5
        assert frames.last.locator("text").text_content() == "vllm/vlmopt_runtime/pack.py:pack"
        page.keyboard.press("ArrowUp")
        assert told.inner_text().startswith("vllm/a.py:<module>, 900.0 ms, 100.0%")
        page.keyboard.press("Escape")
        assert box.locator("g:visible").count() == 6
        box.locator("g").nth(4).click()
        assert box.locator("g:visible").count() == 5
        assert told.inner_text().startswith("vllm/b.py:resize")


def test_without_scripts_all_is_there(browser: Browser, pages) -> None:
    with Seen(browser, pages["full"], java_script_enabled=False) as page:
        assert page.locator("h2:visible").count() == 7
        assert page.locator("button:visible").count() == 0
        assert page.locator("del .l").first.is_visible()
        page.locator("details.more summary").first.click()
        assert page.locator("details.more table").first.is_visible()


def test_paper(browser: Browser, pages) -> None:
    with Seen(browser, pages["full"], color_scheme="dark") as page:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(BACKGROUND) == LIGHT
        assert not page.locator(".bar").is_visible()
        assert page.locator("ins .l").first.is_visible()
        assert page.locator("details.more table").first.is_visible()
        assert page.pdf(format="A4").startswith(b"%PDF")
