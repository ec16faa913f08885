"""Finding and reading debates on the page: filters, search, links, keys, and exact prompts."""

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from playwright.sync_api import expect

from mada.evaluation.grid import score_key

pytestmark = pytest.mark.browser


def rows(page):
    expect(page.locator(".row").first).to_be_visible()
    return page.locator(".row")


def counted(page, count, of=24):
    expect(page.locator(".counted .count")).to_have_text(f"{count} of {of} debates")


def counts_of(page, name):
    """The counts beside the options of a filter, by option."""
    selector = f"#filter-{name} button, #filter-{name} option"
    texts = [text for text in page.locator(selector).all_text_contents() if text != "any"]
    found = [re.fullmatch(r"(.*?) \(?(\d+)\)?", text) for text in texts]
    return {match[1]: int(match[2]) for match in found if match}


def choose(page, name, option):
    value = page.locator(f"#filter-{name} option", has_text=re.compile(f"^{re.escape(option)} "))
    page.locator(f"#filter-{name}").select_option(value.get_attribute("value"))


def press_outcome(page, name, option):
    page.locator(f"#filter-{name} button", has_text=re.compile(f"^{option} ")).click()


def tally(known, attribute, **wanted):
    """How many debates have each value of an attribute, among those that have the wanted ones."""
    counts = {}
    for one in known:
        value = getattr(one, attribute)
        counts[value] = counts.get(value, 0) + all(getattr(one, name) == value for name, value in wanted.items())
    return counts


def address_of(one, run="first"):
    return "#debate=" + "/".join(
        quote(str(part), safe="") for part in (run, one.system, one.benchmark, one.seed, one.problem)
    )


def test_the_list_has_the_debates_in_order(watched, small, known):
    page = watched(small)
    assert rows(page).locator(".where").all_text_contents()[:3] == [
        "Untrained debate · algebra · seed 0",
        "Untrained debate · algebra · seed 1",
        "Untrained debate · algebra · seed 2",
    ]
    marks = {"corrected": "✗✓", "damaged": "✓✗", "right throughout": "✓✓", "wrong throughout": "✗✗"}
    shown = page.locator(".row .mark").all_text_contents()
    assert shown == [marks[one.outcome] + one.outcome for one in known[: len(shown)]]
    assert page.locator(".row").first.get_attribute("aria-setsize") == "24"
    assert page.locator("#debate-list").get_attribute("aria-activedescendant") == "row-0"


def test_filters_leave_what_they_say_and_count_what_the_others_would(watched, small, known):
    page = watched(small)
    counted(page, 24)
    assert counts_of(page, "outcome") == tally(known, "outcome")
    press_outcome(page, "outcome", "damaged")
    counted(page, tally(known, "outcome")["damaged"])
    assert counts_of(page, "outcome") == tally(known, "outcome")
    assert counts_of(page, "benchmark") == tally(known, "benchmark", outcome="damaged")
    choose(page, "system", "MADA")
    left = tally(known, "outcome", system="mada")
    counted(page, left["damaged"])
    assert counts_of(page, "outcome") == left
    assert set(rows(page).locator(".mark").all_text_contents()) == {"✓✗damaged"}
    page.get_by_role("button", name="Clear").click()
    counted(page, 24)
    expect(page.get_by_role("button", name="Clear")).to_be_disabled()


def test_agreed_split_and_tied_debates(watched, small, known):
    page = watched(small)
    counts = tally(known, "outcome")
    agreed = counts["right throughout"] + counts["wrong throughout"]
    assert counts_of(page, "first") == {"agreed": agreed, "split": 24 - agreed}
    assert counts_of(page, "vote") == {"tie": counts["wrong throughout"]}
    press_outcome(page, "first", "agreed")
    counted(page, agreed)
    press_outcome(page, "vote", "tie")
    counted(page, counts["wrong throughout"])


def test_an_agent_and_whether_it_was_right(watched, small, known):
    page = watched(small)
    expect(page.locator("#filter-was")).to_be_hidden()
    choose(page, "agent", "critic-3")
    counted(page, 24)
    # critic-3 is right where the debate is damaged or right throughout (see PATTERNS).
    counts = tally(known, "outcome")
    right = counts["damaged"] + counts["right throughout"]
    assert counts_of(page, "was") == {"right": right, "wrong": 24 - right}
    choose(page, "was", "wrong")
    counted(page, 24 - right)
    assert counts_of(page, "was") == {"right": right, "wrong": 24 - right}
    # generator-1 is wrong where the debate is corrected or wrong throughout.
    assert counts_of(page, "agent")["generator-1"] == counts["corrected"] + counts["wrong throughout"]


def test_words_are_found_in_questions_and_answers_at_once(watched, small, known):
    page = watched(small)
    page.locator("#debate-search").fill("WOMBAT")
    counted(page, 12)
    page.locator("#debate-search").fill("40")
    counted(page, tally(known, "outcome")["wrong throughout"])
    page.locator("#debate-search").fill("quokka")
    counted(page, 0)
    expect(page.get_by_text("No debate passes these filters.")).to_be_visible()


def test_words_are_found_in_everything_said(watched, small):
    page = watched(small)
    page.locator("#debate-search").fill("Quokka")
    page.get_by_label("in everything said").check()
    counted(page, 1)
    expect(page.locator(".row .where")).to_have_text("MADA · algebra · seed 1")
    page.locator("#debate-search").fill("Let critic-2 see")
    counted(page, 24)


def test_a_debate_shows_who_said_what_and_was_right(watched, small, known):
    page = watched(small)
    press_outcome(page, "outcome", "wrong throughout")
    rows(page).first.click()
    debate = page.locator(".debate")
    expect(debate.locator("h4")).to_have_text(["Round 1: generators", "Round 2: critics"])
    expect(debate.locator(".card h5")).to_have_text(
        [*(f"generator-{n}" for n in (1, 2, 3)), *(f"critic-{n}" for n in (1, 2, 3))]
    )
    expect(debate.locator(".card .given")).to_have_text(["41 ✗ wrong"] * 4 + ["40 ✗ wrong", "no answer ✗ wrong"])
    expect(debate.locator(".card .facts").last).to_have_text("120 tokens · cut off at the limit")
    expect(debate.locator(".outcome dd")).to_have_text(
        ["42", "41 ✗ wrong 1 vote", "40 1 vote", "wrong throughout, tie in the vote, 1 without an answer"]
    )
    expect(debate.locator(".card math").first).to_be_attached()
    expect(debate.locator(".place")).to_have_text(f"1 of {tally(known, 'outcome')['wrong throughout']}")


def test_thinking_is_folded_and_mathematics_can_be_seen_raw(watched, small):
    page = watched(small)
    rows(page).first.click()
    card = page.locator(".card").first
    expect(card.locator(".thinking summary")).to_have_text("Thinking (20 characters)")
    expect(card.get_by_text("Let generator-1 see.")).to_be_hidden()
    page.keyboard.press("t")
    expect(card.get_by_text("Let generator-1 see.")).to_be_visible()
    expect(card.locator("> .text math").first).to_be_attached()
    page.keyboard.press("m")
    expect(card.locator("math")).to_have_count(0)
    expect(card.locator("> .text")).to_contain_text("So $\\frac{84}{2}$ it is.")
    expect(card.get_by_text("Let generator-1 see.")).to_be_visible()


def test_prompts_are_the_stored_ones_to_the_letter(watched, small, transcripts, known):
    page = watched(small + address_of(known[3]))
    expect(page.locator(".card")).to_have_count(6)
    page.keyboard.press("p")
    one = transcripts[known[3].system, known[3].benchmark, known[3].seed, known[3].problem]
    stored = [turn.prompt for held in one.debate.rounds for turn in held.turns]
    expect(page.locator(".prompt pre")).to_have_count(6)
    assert page.locator(".prompt pre").evaluate_all("all => all.map(one => one.textContent)") == stored
    assert score_key(one) == (known[3].system, known[3].benchmark, known[3].seed, known[3].problem)


def test_an_address_opens_its_debate_and_filters(watched, small, known):
    wanted = known[13]
    page = watched(small + address_of(wanted) + "&system=mada&text=numbat")
    expect(page.locator("#debate-title bdi")).to_have_text(
        [wanted.problem, "MADA", wanted.benchmark, f"seed {wanted.seed}"]
    )
    page.keyboard.press("Escape")
    expect(page.locator("#debate-search")).to_have_value("numbat")
    counted(page, 6)


def test_back_and_forward(watched, small, known):
    page = watched(small)
    press_outcome(page, "outcome", "corrected")
    rows(page).first.click()
    first = page.locator("#debate-title").inner_text()
    assert page.url.endswith("&outcome=corrected")
    page.keyboard.press("j")
    expect(page.locator(".place")).to_have_text(re.compile("^2 of "))
    page.go_back()
    expect(page.locator(".debate")).to_be_hidden()
    counted(page, tally(known, "outcome")["corrected"])
    page.go_forward()
    expect(page.locator(".place")).to_have_text(re.compile("^2 of "))
    assert page.locator("#debate-title").inner_text() != first


def test_an_address_of_no_debate_is_said_to_be_none(watched, small):
    page = watched(small + "#debate=first/mada/algebra/7/nothing")
    expect(page.locator(".counted .count")).to_contain_text("the debate in the address is not in this file")


def test_keys_lead_through_the_list_and_back(watched, small):
    page = watched(small)
    rows(page)
    page.keyboard.press("j")
    expect(page.locator("#debate-list")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert page.locator("#debate-list").get_attribute("aria-activedescendant") == "row-1"
    page.keyboard.press("Enter")
    expect(page.locator("#debate-title")).to_be_focused()
    expect(page.locator(".place")).to_have_text("2 of 24")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".place")).to_have_text("3 of 24")
    page.keyboard.press("Escape")
    expect(page.locator("#debate-list")).to_be_focused()
    assert page.locator(".row[aria-selected=true]").get_attribute("aria-posinset") == "3"
    page.keyboard.press("End")
    assert page.locator(".row[aria-selected=true]").get_attribute("aria-posinset") == "24"
    page.keyboard.press("/")
    expect(page.locator("#debate-search")).to_be_focused()
    page.keyboard.type("jk?")
    expect(page.locator("#debate-search")).to_have_value("jk?")
    expect(page.locator("dialog")).to_be_hidden()


def test_help_opens_closes_and_can_silence_the_letters(watched, small):
    page = watched(small)
    rows(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.get_by_label("react to single letters").uncheck()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#debate-search")).not_to_be_focused()


def test_the_same_question_by_another_system(watched, small, known):
    one, other = known[0], known[12]
    assert (one.benchmark, one.seed, one.problem) == (other.benchmark, other.seed, other.problem)
    page = watched(small + address_of(one))
    sign = "✓" if other.outcome in ("corrected", "right throughout") else "✗"
    link = page.locator(".related a").first
    expect(link).to_contain_text(f"MADA {sign}")
    link.click()
    expect(page.locator("#debate-title")).to_contain_text("MADA")
    assert address_of(other) in page.url


def test_two_runs_can_be_told_apart(watched, making, tmp_path):
    place = ("algebra", 0, "p")
    sources = []
    for title, outcome in (("one", "corrected"), ("two", "damaged")):
        pair = making.held("mada", place, making.patterns[outcome], question="The same question?")
        sources.append(making.kept(title, making.plan_of("mada"), [pair]))
    page = watched(making.written(tmp_path, sources).as_uri())
    counted(page, 2, of=2)
    choose(page, "run", "two")
    expect(page.locator(".row .mark")).to_have_text("✓✗damaged")
    rows(page).first.click()
    expect(page.locator(".related")).to_have_text("Same question, same seed: one: mada ✓right")


def test_link_and_prompt_can_be_copied(watched, small, known):
    page = watched(small + address_of(known[5]), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == small + address_of(known[5])


def test_a_debate_opens_at_the_top_of_the_window(watched, small, known):
    page = watched(small + address_of(known[7]), viewport={"width": 1280, "height": 500})
    expect(page.locator(".card")).to_have_count(6)
    opened = page.locator("#debate-title").bounding_box()
    page.keyboard.press("Escape")
    expect(page.locator(".row[aria-selected=true]")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_have_count(6)
    again = page.locator("#debate-title").bounding_box()
    assert opened
    assert opened == again
    assert 0 < opened["y"] < 150


def test_going_back_to_a_section_closes_the_debate(watched, small):
    page = watched(small)
    page.get_by_role("link", name="Debates", exact=True).click()
    rows(page).first.click()
    expect(page.locator(".card")).to_have_count(6)
    page.go_back()
    assert page.url.endswith("#debates")
    expect(page.locator(".debate")).to_be_hidden()
    expect(page.locator(".row").first).to_be_visible()


def test_a_corrected_debate_is_in_sight_at_once_and_opens_with_one_click(watched, small):
    page = watched(small)
    expect(page.locator("aside.example")).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Read this debate").click()
    expect(page.locator(".card")).to_have_count(6)
    expect(page.locator(".outcome")).to_contain_text("corrected")


def test_a_file_that_was_cut_off_says_so(watched, small, tmp_path):
    whole = Path(unquote(urlsplit(small).path)).read_text(encoding="utf-8")
    (tmp_path / "cut.html").write_text(whole.split('<script type="text/plain"')[0], encoding="utf-8")
    page = watched((tmp_path / "cut.html").as_uri())
    counted(page, 24)
    rows(page).first.click()
    expect(page.get_by_role("alert")).to_contain_text("the file may be incomplete")
    page.keyboard.press("Escape")
    page.locator("#debate-search").fill("quokka")
    page.get_by_label("in everything said").check()
    expect(page.locator(".counted .count")).to_contain_text("the search ended early")
