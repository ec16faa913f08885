"""How the page behaves as a page: schemes, narrow screens, paper, and very many debates."""

from itertools import pairwise

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

MANY = 10_000


def colour(page, selector="body", name="background-color"):
    return page.locator(selector).evaluate(f"element => getComputedStyle(element).getPropertyValue('{name}')")


def boxes(page, selector):
    expect(page.locator(selector).first).to_be_visible()
    return [one.bounding_box() for one in page.locator(selector).all()]


def is_wider_than_the_window(page):
    return page.evaluate("() => document.documentElement.scrollWidth > window.innerWidth")


def test_the_scheme_is_the_systems_until_somebody_chooses(watched, small):
    light, dark = watched(small, color_scheme="light"), watched(small, color_scheme="dark")
    assert colour(light) == "rgb(253, 252, 249)"
    assert colour(dark) == "rgb(21, 23, 26)"
    light.get_by_role("button", name="Dark").click()
    assert colour(light) == colour(dark)
    assert colour(light, name="--series-1") == colour(dark, name="--series-1")
    dark.get_by_role("button", name="Light").click()
    assert colour(dark) == "rgb(253, 252, 249)"


def test_the_scheme_is_remembered(watched, small):
    page = watched(small, color_scheme="light")
    page.get_by_role("button", name="Dark").click()
    other = page.context.new_page()
    other.goto(small)
    expect(other.get_by_role("button", name="Light")).to_be_visible()
    assert colour(other) == "rgb(21, 23, 26)"
    other.close()


def test_shaded_cells_have_their_colour(watched, small):
    page = watched(small)
    plain, shaded = colour(page, "tbody th"), colour(page, "td.shade >> nth=0")
    assert plain != shaded
    assert shaded.startswith("color(srgb")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_in_one_direction_only(watched, small, scheme):
    page = watched(small, viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)
    expect(page.locator(".row").first).to_be_visible()
    assert not is_wider_than_the_window(page)
    page.locator(".row").first.click()
    expect(page.locator(".card")).to_have_count(6)
    page.get_by_role("button", name="Prompts").click()
    page.get_by_role("button", name="Unfold thinking").click()
    expect(page.locator(".prompt pre").first).to_be_visible()
    assert not is_wider_than_the_window(page)
    first, second = boxes(page, ".round")
    assert first["x"] == second["x"]


def test_rounds_stand_side_by_side_where_there_is_room(watched, small):
    page = watched(small)
    page.locator(".row").first.click()
    first, second = boxes(page, ".round")
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]


def test_paper_has_tables_and_no_browser(watched, small):
    page = watched(small, color_scheme="dark")
    expect(page.locator(".row").first).to_be_visible()
    page.emulate_media(media="print")
    expect(page.locator("table")).to_be_visible()
    expect(page.locator("#debates")).to_be_hidden()
    expect(page.locator(".bar")).to_be_hidden()
    assert colour(page) == "rgb(255, 255, 255)"


def test_headings_are_in_order_and_everything_has_a_name(watched, small):
    page = watched(small)
    page.locator(".row").first.click()
    expect(page.locator(".card")).to_have_count(6)
    levels = page.locator("h1, h2, h3, h4, h5").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => +e.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    page.keyboard.press("Escape")
    unnamed = page.locator("input, select, button").evaluate_all(
        "all => all.filter(one => one.checkVisibility() && !one.textContent.trim() && !one.labels?.length)"
        ".map(one => one.outerHTML)"
    )
    assert unnamed == []


def test_skip_links_come_first_and_lead_to_the_debates(watched, small):
    page = watched(small)
    expect(page.locator(".row").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the report")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#debates-title")).to_be_in_viewport()


def test_the_list_is_left_by_tab(watched, small):
    page = watched(small)
    expect(page.locator(".row").first).to_be_visible()
    page.locator("#debate-list").focus()
    page.keyboard.press("Shift+Tab")
    expect(page.locator("#debate-list")).not_to_be_focused()


@pytest.fixture(scope="module")
def big(making, tmp_path_factory):
    """The path of a page with 10,000 debates; problem and question say which of them each is."""
    patterns = list(making.patterns.values())
    pairs = (
        making.held("mada", ("many", 0, f"p{number}"), patterns[number % 4], question=f"Question number {number}?")
        for number in range(MANY)
    )
    source = making.kept("big", making.plan_of("mada"), pairs)
    return making.written(tmp_path_factory.mktemp("big"), [source])


def test_ten_thousand_debates(watched, big):
    page = watched(big.as_uri())
    expect(page.locator(".row").first).to_be_visible()
    paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    print(f"{big.stat().st_size / 1e6:.1f} MB, first contentful paint after {paint} ms")
    page.locator("#debate-list").press("End")
    last = page.locator(".row[aria-selected=true]")
    expect(last).to_be_in_viewport()
    expect(last.locator(".beginning")).to_have_text("Question number 9999?")
    assert last.get_attribute("aria-posinset") == "10000"
    assert page.locator(".row").count() < 60
    for position in (1000, 9000, 3000, 7000, 5000):
        page.locator("#debate-list").evaluate(f"list => {{ list.scrollTop = {position} * 58; }}")
        expect(page.locator(f".row[aria-posinset='{position + 1}']")).to_be_in_viewport()
    expect(page.locator(".row[aria-posinset='5001'] .beginning")).to_have_text("Question number 5000?")
    assert page.locator(".row").count() < 60
    page.locator(".row[aria-posinset='5001']").click()
    expect(page.locator(".question")).to_have_text("Question number 5000?")
    expect(page.locator(".place")).to_have_text("5,001 of 10,000")


def test_words_said_are_found_among_ten_thousand_debates(watched, big):
    page = watched(big.as_uri() + "#text=number%209876&said=1")
    expect(page.locator(".counted .count")).to_have_text("1 of 10,000 debates", timeout=30_000)
    expect(page.locator(".row .beginning")).to_have_text("Question number 9876?")


def test_a_change_ends_the_search_before_it(watched, big):
    page = watched(big.as_uri() + "#text=number%209876&said=1")
    page.get_by_role("button", name="Clear").click()
    # Longer than a search that went on would take for its next report.
    page.wait_for_timeout(600)
    expect(page.locator(".counted .count")).to_have_text("10,000 of 10,000 debates")
