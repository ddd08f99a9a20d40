"""The page and the report in a real Chromium: by pointer, by keyboard, by roles and names, in the dark, offline."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

import hostile
from cli_run import run, store
from http_client import served

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path; make browser installs one")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BBOX = "gazet/get_aoi/bbox"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a page; at the end it must have met no error, asked nobody else, and have run nothing that was stored."""
    contexts = []

    def open_page(url: str, **settings: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.wrong = []
        page.asked = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("dialog", lambda dialog: page.wrong.append(dialog.message))
        page.on("console", lambda told: page.wrong.append(told.text) if told.type == "error" else None)
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            unexpected = [each for each in page.wrong if "the server responded with a status of" not in each]
            assert unexpected == []
            start = page.asked[0].partition("#")[0]
            assert [url for url in page.asked if not url.startswith((start, "data:,"))] == []
            assert page.locator("html[data-owned]").count() == 0
        context.close()


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with served(store("demo")) as url:
        yield url


@pytest.fixture(scope="module")
def pruned() -> Iterator[str]:
    with served(store("demo-pruned")) as url:
        yield url


@pytest.fixture(params=["server", "report"])
def demo_page(request: pytest.FixtureRequest, tmp_path: Path, demo: str) -> str:
    """The same thread as the server and as a report have it."""
    return demo if request.param == "server" else report_of(tmp_path, "demo", store("demo"))


def report_of(folder: Path, thread: str, address: str) -> str:
    path = folder / "report.html"
    assert run("report", "--html", str(path), "--force", "--store", address, "--", thread).code == 0
    return path.as_uri()


def cell(page: Any, name: str) -> Any:
    return page.get_by_role("gridcell", name=name, exact=True)


def settled(page: Any, words: str) -> None:
    """Until the page says so to who cannot see it."""
    page.get_by_role("status").filter(has_text=words).first.wait_for()


def values(page: Any) -> list[str]:
    return [text.removesuffix("\n") for text in page.locator("#values pre").all_inner_texts()]


def test_a_row_says_which_turns_wrote_its_key_and_a_cell_shows_the_value(
    opened: Open, demo_page: str
) -> None:
    page = opened(demo_page)
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=BBOX))
    assert row.get_by_role("rowheader").inner_text().splitlines() == [BBOX, "written in 2 turns (1, 3)"]
    assert row.get_by_role("gridcell").all_inner_texts() == ["●", "·", "●"]
    cell(page, f"{BBOX}, turn 2: unchanged").click()
    settled(page, f"{BBOX}, as turn 2 ended: Value")
    assert values(page) == ["[12.4, 55.5, 12.7, 55.8]"]
    assert page.locator("#detail-notes li").all_inner_texts() == [
        "turn 2 · checkpoint 1f1ecbdf-638d-66fd-8006-70ca800e7ac8 · written in turn 1 by tool"
        " · written in 2 turns (1, 3)"
    ]


def test_two_cells_are_a_difference_in_whichever_order(opened: Open, demo_page: str) -> None:
    page = opened(demo_page)
    cell(page, "plan, turn 3: written").click()
    cell(page, "plan, turn 1: written").click(modifiers=["Shift"])
    settled(page, "plan, from the end of turn 1 to the end of turn 3: Difference")
    assert values(page) == [
        'plan  changed · 17 B → 31 B\n  ~ $  "look up the area{+, then compare+}"',
        "look up the area",
        "look up the area, then compare",
    ]
    cell(page, "plan, turn 2: unchanged").click()
    page.get_by_role("button", name="Compare with another turn").click()
    cell(page, "plan, turn 1: written").click()
    settled(page, "to the end of turn 2: no differences")
    cell(page, "messages, turn 1: written").click(modifiers=["Shift"])
    settled(page, "messages, as turn 1 ended: Value")


def test_a_keyboard_is_enough(opened: Open, demo_page: str) -> None:
    page = opened(demo_page)
    cell(page, "messages, turn 3: written").wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "gridcell":
            break
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == "messages, turn 3: written"
    assert page.locator("td[tabindex='0']").count() == 1
    for key, at in [
        ("ArrowDown", "plan, turn 3: written"),
        ("Home", "plan, turn 1: written"),
        ("ArrowLeft", "plan, turn 1: written"),
        ("ArrowRight", "plan, turn 2: unchanged"),
        ("End", "plan, turn 3: written"),
        ("Control+Home", "messages, turn 1: written"),
        ("Control+End", f"{BBOX}, turn 3: written"),
        ("ArrowUp", "plan, turn 3: written"),
    ]:
        page.keyboard.press(key)
        assert page.evaluate(focused) == at
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px"
    page.keyboard.press("Enter")
    settled(page, "plan, as turn 3 ended: Value")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+Enter")
    settled(page, "plan, from the end of turn 1 to the end of turn 3: Difference")
    assert page.locator("td[aria-selected='true']").count() == 2
    page.keyboard.press("Escape")
    page.locator("#detail").wait_for(state="hidden")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "OL"  # out of the grid with one step


@pytest.mark.parametrize("kind", ["server", "report"])
def test_a_pruned_turn_a_value_and_what_was_not_yet_written_are_told_apart(
    opened: Open, pruned: str, tmp_path: Path, kind: str
) -> None:
    page = opened(pruned if kind == "server" else report_of(tmp_path, "demo", store("demo-pruned")))
    cell(page, "plan, turn 1: no longer kept").click()
    settled(page, "No longer retained: it was there, and was pruned")
    assert page.locator("#outcome.gone").count() == 1
    assert "turns that can be read: 2, 3" in page.locator("#detail-notes").inner_text()
    assert values(page) == []
    cell(page, "plan, turn 2: not known, steps are gone").click()
    settled(page, "plan, as turn 2 ended: Value")
    assert "turns that are kept as they ended: 2, 3 of 3" in page.locator("#notes").inner_text()
    assert page.get_by_role("rowheader").nth(1).inner_text().splitlines()[1] == (
        "written in 1 turn (3); rows that are gone wrote it too"
    )


def test_a_thread_is_found_and_linked_to(opened: Open, tmp_path: Path) -> None:
    with served(store("retention")) as url:
        page = opened(f"{url}#thread=one-turn-gone")
        page.get_by_role("heading", name="Thread one-turn-gone").wait_for()
        cell(page, "lookup/4, turn 1: not there").click()
        settled(page, "lookup/4, as turn 1 ended: Not yet written")
        page.get_by_label("Find ids with").fill("first")
        page.get_by_role("listitem").filter(has_text="thinned").wait_for(state="detached")
        page.get_by_role("link", name=re.compile("^first-and-last")).click()
        page.get_by_role("heading", name="Thread first-and-last").wait_for()
        assert page.evaluate("document.activeElement.id") == "thread-title"
        assert page.locator("a[aria-current]").inner_text().startswith("first-and-last")


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    hostile.record(path)
    return str(path)


def test_stored_text_stays_text(opened: Open, hostile_store: str) -> None:
    with served(hostile_store) as url:
        page = opened(url)
        for thread in hostile.THREADS:
            page.goto(f"{url}#thread={quote(thread, safe='')}")
            assert_text_only(page, thread)
            if thread == "..":
                assert_values(page)


def test_stored_text_stays_text_in_a_report(opened: Open, hostile_store: str, tmp_path: Path) -> None:
    for thread in hostile.THREADS[:3]:
        page = opened(report_of(tmp_path, thread, hostile_store))
        assert_text_only(page, thread)
    assert_values(page)


def assert_text_only(page: Any, thread: str) -> None:
    """The thread and its questions stand there as they are stored, and nothing came of them."""
    page.get_by_role("heading", name=f"Thread {thread or '(empty id)'}", exact=True).wait_for()
    assert page.locator("#questions bdi").all_text_contents() == list(hostile.TEXTS[:2])
    assert page.locator("#thread-title bdi").text_content() == (thread or "(empty id)")
    assert page.locator("img, svg, iframe, base, textarea, [onload], [onerror], [onfocus]").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0


def assert_values(page: Any) -> None:
    """Each key has its value, and the difference asked for is that of one key."""
    assert all_values(page) == {
        key: f"{text} 2"
        for key, text in zip(hostile.KEYS, hostile.TEXTS * 2, strict=False)
        if key.isascii() and key
    }
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(r"^k\*")))
    row.get_by_role("gridcell").first.click()
    row.get_by_role("gridcell").last.click(modifiers=["Shift"])
    settled(page, "k*, from the end of turn 1 to the end of turn 2: Difference")
    headings = [line for line in values(page)[0].splitlines() if "  changed · " in line]
    assert [line.partition("  ")[0] for line in headings] == ["k*"]


def all_values(page: Any) -> dict[str, str]:
    """What each key held at last, but for the messages and names with what cannot be seen in them."""
    found = {}
    for row in range(page.get_by_role("rowheader").count()):
        page.locator(f"td[data-row='{row}'][data-column='1']").click()
        page.locator("#outcome.value").wait_for()
        found[page.locator("#detail-title bdi").text_content()] = values(page)[0]
    return {key: text for key, text in found.items() if key in hostile.KEYS and key.isascii()}


def test_the_token_is_asked_for(opened: Open) -> None:
    with served(store("demo"), token="long and random") as url:
        page = opened(url)
        page.get_by_label("This server needs its token").fill("wrong")
        page.get_by_role("button", name="Use it").click()
        settled(page, "The token is needed.")
        page.get_by_label("This server needs its token").fill("long and random")
        page.keyboard.press("Enter")
        cell(page, "plan, turn 2: unchanged").wait_for()


CONTRASTS = """() => {
  const lightness = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
  };
  return [...document.querySelectorAll("h1, h2, h3, p, li, small, th, td, pre, button, a, bdi, label, span")]
    .filter((each) => each.checkVisibility() && each.textContent.trim() && !each.disabled)
    .map((each) => {
      const two = [lightness(getComputedStyle(each).color), lightness(ground(each))].sort((a, b) => b - a);
      return [each.tagName + "." + each.className, (two[0] + 0.05) / (two[1] + 0.05)];
    });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_both_schemes(opened: Open, pruned: str, scheme: str) -> None:
    page = opened(pruned, color_scheme=scheme)
    cell(page, "plan, turn 2: not known, steps are gone").click()
    cell(page, "plan, turn 3: written").click(modifiers=["Shift"])
    settled(page, "Difference")
    found = page.evaluate(CONTRASTS)
    assert len(found) > 40
    assert [each for each in found if each[1] < 4.5] == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]


def test_a_narrow_window_scrolls_only_the_grid(opened: Open) -> None:
    with served(store("plain")) as url:
        page = opened(url, viewport={"width": 360, "height": 700})
        cell(page, "plan, turn 10: written").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(
            "(box => box.scrollWidth > box.clientWidth)(document.getElementById('grid-box'))"
        )


class Counted(TypedDict, total=False):
    query: str
    count: int
    long: str


@pytest.fixture(scope="module")
def long_thread(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("long") / "long.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(Counted)
        graph.add_node("count", lambda state: {"count": state.get("count", 0) + 1, "long": "line\n" * 2000})
        graph.add_edge(START, "count")
        graph.add_edge("count", END)
        app = graph.compile(checkpointer=saver)
        for number in range(230):
            app.invoke({"query": f"q{number}"}, {"configurable": {"thread_id": "long"}}, durability="exit")
    return str(path)


def test_a_long_thread_is_shown_a_hundred_turns_at_a_time(opened: Open, long_thread: str) -> None:
    with served(long_thread) as url:
        page = opened(url)
        cell(page, "count, turn 230: written").wait_for()
        assert page.locator("td[data-row='0']").count() == 100
        assert page.locator("#band").inner_text() == "turns 131 to 230 of 230"
        # A screen reader counts columns among all turns, after that of the keys.
        assert cell(page, "count, turn 230: written").get_attribute("aria-colindex") == "231"
        oldest = page.get_by_role("columnheader", name="turn 131, complete")
        assert oldest.get_attribute("aria-colindex") == "132"
        head = page.get_by_role("rowheader").first
        page.locator("#grid-box").evaluate("box => { box.scrollLeft = 900; }")
        assert head.bounding_box()["x"] == page.locator("#grid-box").bounding_box()["x"] + 1
        page.get_by_role("button", name="Earlier turns").click()
        assert page.locator("#band").inner_text() == "turns 31 to 130 of 230"
        cell(page, "count, turn 31: written").focus()
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "count, turn 1: written"
        page.keyboard.press("Enter")
        settled(page, "count, as turn 1 ended: Value")
        page.keyboard.press("End")
        page.keyboard.press("Shift+Enter")
        settled(page, "count, from the end of turn 1 to the end of turn 230: Difference")
        assert values(page)[0].endswith("~ $  1 → 230")


def test_a_long_value_is_cut_until_all_of_it_is_asked_for(opened: Open, long_thread: str) -> None:
    with served(long_thread) as url:
        page = opened(url)
        cell(page, "long, turn 230: rewritten, equal value").click()
        settled(page, "long, as turn 230 ended: Value")
        assert len(values(page)[0]) < 4100
        page.get_by_role("button", name="Show all, 10,000 characters").click()
        assert len(page.locator("#values pre").text_content()) == 10_000
