"""What debating changed: how right and wrong passed from round to round and critic to critic; and debates to read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mada.evaluation.grid import MEASURES, Grid, ScoreKey, score_key
from mada.evaluation.scores import TRANSCRIPTS, Score, Transcript
from mada.evaluation.transitions import AnswerSource, AnswerSources, DebateTransitions, Transitions
from mada.evaluation.transitions import Outcome as RoundOutcome
from mada.report.document import Block, Code, Column, Heading, Listing, Section, Strong, Table, columns, paragraph, row
from mada.report.figures import figure
from mada.report.numbers import numbered_titles, share_text
from mada.report.page.debates import Outcome, outcome_of
from mada.report.reading import Source, shown_debates

Rows = Iterable[list[str]]

PASSED = columns("right → right", "right → wrong", "wrong → right", "wrong → wrong")
BECAME = columns("debates", "share of questions", "last round's accuracy", "last vote right")
ORIGINS: dict[AnswerSource, str] = {"majority": "the vote", "minority": "another answer", "new": "a new one"}
"""Where an answer may be from."""


def ledger_section(grid: Grid) -> Section | None:
    """Return the ledgers of all shown debates; None without any."""
    titles = numbered_titles([grid.plan])
    ledgers = [(titles[system.name], transitions) for system, transitions in shown_debates(grid)]
    if not ledgers:
        return None

    def table(
        name: str,
        title: str,
        headings: Sequence[Column],
        rows: Callable[[DebateTransitions], Rows],
        note: str,
        *,
        among: Sequence[tuple[str, DebateTransitions]] = ledgers,
    ) -> Table:
        """Return a table with a group of rows for every debate."""
        groups = tuple(tuple(row(debate, cells) for cells in rows(ledger)) for debate, ledger in among)
        return Table(name, title, (*columns("debate", kind="text"), *headings), groups, (note,))

    several = [(title, ledger) for title, ledger in ledgers if len(ledger.by_seat) > 1]
    blocks: list[Block] = [
        paragraph("Shares are in percent, and no answer is a wrong one."),
        figure("flow"),
        table(
            "votes",
            "Votes, from the first round's to the last's",
            (*columns("rounds", kind="text"), *PASSED),
            _steps,
            "Of all questions: wrong → right is what debating improved, right → wrong what it damaged.",
        ),
        table(
            "critics",
            "Critics, from the vote they were shown to their own answer",
            (*columns("critic", kind="text"), *PASSED),
            lambda ledger: ([critic, *_passed(turns)] for critic, turns in ledger.turns.items()),
            "Of the critic's turns.",
        ),
        figure("critics"),
        table(
            "by-right",
            "By how many generators were right in the first round",
            (*columns("generators right"), *BECAME),
            lambda ledger: (
                _became(f"{right} of {len(ledger.by_right) - 1}", one) for right, one in enumerate(ledger.by_right)
            ),
            "How often that is, and how right the last round is then. Debates that help where few were right do more "
            "than count votes.",
        ),
    ]
    if several:
        by_seat = table(
            "by-seat",
            "Where one generator alone was right, by its seat",
            (*columns("seat"), *BECAME),
            lambda ledger: (_became(str(seat), one) for seat, one in enumerate(ledger.by_seat, start=1)),
            "Critics see responses in the order of the seats, unless the recipe shuffles them. Unshuffled, where one "
            "seat's answers are taken up far more often than another's, they go by position, not by content.",
            among=several,
        )
        blocks.append(by_seat)
    shares = [column for origin in ORIGINS.values() for column in columns("share", "right", group=origin)]
    sources = table(
        "sources",
        "Where critics have their answers from",
        (*columns("critic", kind="text"), *shares, *columns("no answer")),
        _taken,
        "From the vote of the round before, from another answer given there, or from nowhere: the share of critics' "
        "turns, and how many of those are right.",
    )
    return Section("debating", "What debating changed", (*blocks, sources))


def _steps(ledger: DebateTransitions) -> Rows:
    rounds = len(ledger.votes) + 1
    yield [f"1 → {rounds}", *_passed(ledger.overall)]
    if rounds > 2:
        for number, step in enumerate(ledger.votes, start=1):
            yield [f"{number} → {number + 1}", *_passed(step)]


def _passed(one: Transitions) -> list[str]:
    return [*map(share_text, (one.right_to_right, one.right_to_wrong, one.wrong_to_right, one.wrong_to_wrong))]


def _became(kind: str, one: RoundOutcome) -> list[str]:
    return [kind, f"{one.count:,}", *map(share_text, (one.share, one.accuracy, one.vote))]


def _taken(ledger: DebateTransitions) -> Rows:
    """Yield where critics have their answers from, all of them together and each."""
    critics: dict[str, AnswerSources] = {"all": ledger.sources} if len(ledger.sources_by_critic) > 1 else {}
    for critic, taken in (*critics.items(), *ledger.sources_by_critic.items()):
        given = [value for origin in ORIGINS for value in (taken[origin].share, taken[origin].accuracy)]
        yield [critic, *map(share_text, (*given, taken["none"].share))]


DESCRIPTIONS: dict[Outcome, str] = {
    "corrected": "Corrected: the first vote is wrong, the last right",
    "damaged": "Damaged: the first vote is right, the last wrong",
    "wrong throughout": "Failed: no vote is right",
}
LONGEST_TEXT = 3_000


def examples_section(source: Source) -> Section | None:
    """Return one debate of each outcome to read, as far as they were kept; None without any."""
    grid = source.grid
    if grid is None:
        return None
    # Trained debates first, of them the reference, then those with most right verdicts.
    shares = {system: grid.average(system, MEASURES["verdict"]) for system in grid.plan.shown_systems}
    ranked = sorted(shares, key=lambda system: (*grid.plan.reading_order(system), -shares[system]))
    examples = pick_examples(source.transcripts(), grid.scores, systems=[system.name for system in ranked])
    if not examples:
        return None
    where = paragraph("All that were kept are in ", Code(f"records/{TRANSCRIPTS}.jsonl"), ", with the prompts.")
    shown = (block for outcome, example in examples.items() for block in _example(outcome, *example))
    return Section("debates-to-read", "Debates to read", (where, *shown), only="text")


def pick_examples(
    transcripts: Iterable[Transcript], scores: Mapping[ScoreKey, Score], *, systems: Iterable[str]
) -> dict[Outcome, tuple[Transcript, Score]]:
    """Pick one debate of each outcome that has a description, of the first of `systems` that has one.

    Debates in which all replies are complete and have an answer are preferred. Among equals the choice is by seed and
    name, so that it is always the same.
    """
    ranks = {name: rank for rank, name in enumerate(systems)}
    found: dict[Outcome, tuple[tuple[object, ...], tuple[Transcript, Score]]] = {}
    for transcript in transcripts:
        score = scores.get(score_key(transcript))
        if score is None or score.system not in ranks or (outcome := outcome_of(score)) not in DESCRIPTIONS:
            continue
        is_incomplete = score.truncated + score.unanswered > 0
        key = (ranks[score.system], is_incomplete, score.seed, score.benchmark, score.problem)
        if outcome not in found or key < found[outcome][0]:
            found[outcome] = (key, (transcript, score))
    return {outcome: found[outcome][1] for outcome in DESCRIPTIONS if outcome in found}


def shortened(text: str) -> str:
    """Leave out the middle of a text too long for a page, and say how much."""
    left_out = len(text) - LONGEST_TEXT
    if left_out <= 0:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"


def _example(outcome: Outcome, transcript: Transcript, score: Score) -> Iterator[Block]:
    """Yield a debate: the question, then every response with its answer, round by round."""
    yield Heading(DESCRIPTIONS[outcome])
    place = f" on {transcript.benchmark}, problem ", Code(transcript.problem), f", seed {transcript.seed}. "
    right = "The right answer is ", Code(transcript.reference), "."
    yield paragraph("System ", Code(transcript.system), *place, *right)
    yield Listing(shortened(transcript.debate.question))
    for one, verdicts in zip(transcript.debate.rounds, score.correct, strict=True):
        yield Heading(f"Round {one.number}", level=2)
        for turn, is_right in zip(one.turns, verdicts, strict=True):
            response = turn.response
            end = ", cut off at the token limit" if response.truncated else ""
            facts = f", {'right' if is_right else 'wrong'}; {response.token_count:,} tokens{end}"
            answer = (": no answer",) if response.answer is None else (": answer ", Code(response.answer))
            yield paragraph(Strong(turn.agent), *answer, facts)
            yield Listing(shortened(response.text))
