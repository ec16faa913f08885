"""What models, data sets and recipes say is shown and never obeyed, wherever on the page it stands."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

NAME = (
    "<script>window.hacked=1</script></script><img src=x onerror=window.hacked=1>"
    "<!--<script>\u202eevil\u2066 $\\frac{1$ $$\\begin{x} \\href{javascript:window.hacked=1}{a}$$ &lt;&amp;\u2028'\"`"
)
HOSTILE = NAME + "\ud800"  # half a character, which names in a plan cannot have
PLACE = (f"benchmark {HOSTILE}", 0, f"problem/{HOSTILE}%2F&debate=#")
SYSTEM, TITLE, RUN, AGENT = f"system {NAME}", f"title {NAME}", f"run {HOSTILE}", f"agent {HOSTILE}"


@pytest.fixture
def address(making, tmp_path):
    answers = ((f"answer {HOSTILE}", "42", "42"), ("42", "42", f"answer {HOSTILE}"))
    agents = ((AGENT,) * 3, (AGENT,) * 3)
    said = {"question": f"question {HOSTILE}", "agents": agents, "prefix": HOSTILE, "groups": (1, 0, 0)}
    pairs = [making.held(system, PLACE, answers, **said) for system in (SYSTEM, "plain")]
    plan = making.plan_of(SYSTEM, "plain", titles={SYSTEM: TITLE})
    return making.written(tmp_path, [making.kept(RUN, plan, pairs)], title=HOSTILE, lead=HOSTILE).as_uri()


def text_of(locator):
    """The text of an element, half characters included, which no other way out of the browser leaves alone."""
    codes = locator.first.evaluate("element => Array.from(element.textContent, letter => letter.codePointAt(0))")
    return "".join(map(chr, codes))


def is_hacked(page):
    return page.evaluate("() => window.hacked !== undefined")


def test_hostile_text_is_shown_as_it_is_and_nothing_runs(watched, address):
    page = watched(address)
    expect(page.locator(".row")).to_have_count(2)
    assert text_of(page.locator(".row .beginning")) == f"question {HOSTILE}".replace("\u2028", " ")[:200]
    assert text_of(page.locator(".row .where bdi")) == TITLE
    page.locator(".row").first.click()
    expect(page.locator(".card")).to_have_count(6)
    page.keyboard.press("m")
    page.keyboard.press("p")
    assert text_of(page.locator(".question .text")) == f"question {HOSTILE}"
    assert text_of(page.locator(".card h5")) == AGENT
    assert text_of(page.locator(".card .given .answer")) == f"answer {HOSTILE}"
    assert text_of(page.locator("#debate-title .problem-name")) == PLACE[2]
    assert HOSTILE in text_of(page.locator(".prompt pre"))
    assert page.locator("main :is(script, img, iframe, object, [onerror])").count() == 0
    assert not is_hacked(page)


def test_broken_mathematics_leaves_the_rest_readable(watched, address):
    page = watched(address)
    page.locator(".row").first.click()
    expect(page.locator(".question")).to_contain_text("<script>window.hacked=1</script>")
    assert page.locator("main a[href^=javascript]").count() == 0
    assert not is_hacked(page)


def test_the_address_of_a_hostile_debate_opens_it_again(watched, address):
    page = watched(address)
    page.locator(".row").first.click()
    expect(page.locator(".card")).to_have_count(6)
    again = watched(page.url)
    expect(again.locator("#debate-title .problem-name")).to_contain_text("problem/<script>")
    assert not is_hacked(again)


def test_even_markup_that_slipped_through_could_not_run(browser, address):
    """The policy is the second wall: what the first let through is refused, and asks for nothing."""
    page = browser.new_page()
    left, refused = [], []
    page.on("response", lambda response: left.append(response.url))
    page.on("requestfailed", lambda request: refused.append((request.url, request.failure)))
    page.goto(address)
    page.evaluate(
        """() => {
            const hole = document.createElement("div");
            hole.innerHTML = "<img src='https://example.org/x.png' onerror='window.hacked=1'>";
            document.body.append(hole);
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
        }"""
    )
    page.wait_for_timeout(100)
    assert not is_hacked(page)
    assert left == [address]
    assert refused == [("https://example.org/x.png", "csp")]
    page.close()
