// Ask a team and watch its debate arrive; read a debate that was held; the list of recent ones.
import { getJson, stream } from "./api.js";
import { announce, button, copyButton, counted, duration, fromServer, make, moment, number, problem, seen, spoken }
  from "./dom.js";

const ROLES = { generator: "generators", critic: "critics" };
// What the form holds, for as long as the page is open.
const draft = { question: "", team: null, rounds: null, seed: "" };

export async function show(main, id, context) {
  if (id !== null) return showHeld(main, id, context);
  showForm(main, context);
}

// --- the form, and recent debates ---

function showForm(main, context, { error = null } = {}) {
  const { info: { teams }, signal } = context;
  const team = () => teams.find((one) => one.name === draft.team) ?? teams[0];
  const question = make("textarea", {
    id: "question", rows: "3", required: true, dir: "auto", enterkeyhint: "go", "aria-describedby": "question-hint",
    placeholder: "A box holds 12 rows of 7 apples. A third of them are green. How many are not?",
    oninput: () => { draft.question = question.value; },
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    },
  });
  const teamField = make("select", { id: "team", onchange: () => {
    draft.team = teamField.value;
    draft.rounds = null;
    describe();
  } }, ...teams.map((one) => make("option", { value: one.name, selected: one === team() }, one.name)));
  const rounds = make("select", { id: "rounds", onchange: () => { draft.rounds = Number(rounds.value); } });
  const seed = make("input", {
    id: "seed", inputmode: "numeric", pattern: "[0-9]{1,9}", title: "a whole number", placeholder: "any", size: "9",
    autocomplete: "off", oninput: () => { draft.seed = seed.value.trim(); },
  });
  const about = make("p", { class: "note", id: "about-team" });
  const field = (input, label) => make("div", { class: "choice" }, make("label", { for: input.id }, label), input);
  const submit = (event) => {
    event.preventDefault();
    if (question.value.trim() !== "") hold(main, context, { ...draft, team: team().name, rounds: Number(rounds.value) });
  };
  const form = make(
    "form", { class: "ask", onsubmit: submit },
    make("h2", { tabindex: "-1" }, make("label", { for: "question" }, "Ask a team")),
    question,
    make("div", { class: "choices" },
      field(teamField, "Team"), field(rounds, "Rounds"), field(seed, "Seed"),
      make("button", { type: "submit", class: "main" }, "Ask"),
      make("p", { class: "note", id: "question-hint" }, "Enter asks, Shift+Enter starts a new line")),
    about,
  );

  function describe() {
    const { generators, critics, model, trained, rounds: usual, max_tokens: most } = team();
    const possible = critics.length > 0 ? [1, 2, 3, 4, 5, 6, 7, 8] : [1];
    rounds.replaceChildren(...possible.map((count) =>
      make("option", { selected: count === (draft.rounds ?? usual) }, String(count))));
    const size = [counted(generators.length, "generator"), critics.length > 0 && counted(critics.length, "critic")];
    about.textContent = [
      size.filter(Boolean).join(" and "), model, trained ? "trained" : "not trained",
      `answers of at most ${counted(most, "token")}`,
    ].join(" · ");
  }

  question.value = draft.question;
  seed.value = draft.seed;
  describe();
  const failed = error && (error.retryAfter === null ? problem(error) : waiting(error, { signal, again: submit }));
  const recent = make("section", { class: "recent", "aria-labelledby": "recent-title", hidden: true });
  main.replaceChildren(...[form, failed, recent].filter(Boolean));
  if (matchMedia("(pointer: fine)").matches) question.focus({ preventScroll: true });
  listRecent(recent, context).catch((failure) => signal.aborted || recent.replaceChildren(problem(failure)));
}

// The server is busy and said for how long: ask again by itself then, unless the user does something else.
function waiting(error, { signal, again }) {
  let left = Math.ceil(error.retryAfter);
  const clock = make("p", { class: "clock" });
  const tick = () => {
    clock.textContent = `Asking again in ${duration(left)}.`;
    if (left <= 0 || signal.aborted || !clock.isConnected) clearInterval(timer);
    if (left <= 0 && !signal.aborted && clock.isConnected) again(new Event("again"));
    left -= 1;
  };
  const timer = setInterval(tick, 1000);
  const stop = button("Do not ask again", () => {
    clearInterval(timer);
    clock.remove();
    stop.remove();
  });
  const element = problem(error, button("Ask now", (event) => again(event)), stop);
  // The alert is read once, not every second.
  element.insertBefore(clock, element.children[1]);
  clock.setAttribute("aria-hidden", "true");
  clock.textContent = `Asking again in ${duration(left)}.`;
  return element;
}

async function listRecent(section, { signal }) {
  const { debates } = await getJson("/api/debates?limit=50", { signal });
  section.hidden = debates.length === 0;
  const rows = debates.map((one) => make(
    "li", {}, make("a", { href: `/debate/${encodeURIComponent(one.id)}` },
      make("span", { class: "beginning", dir: "auto" }, one.question),
      make("span", { class: "given" },
        make("bdi", { class: one.answer === null ? "answer none" : "answer" }, one.answer ?? "no answer"),
        make("span", { class: one.unanimous ? "agree" : "split" }, one.unanimous ? " ✓ agreed" : " ≠ split")),
      make("span", { class: "where" }, make("bdi", {}, one.team), " · ", moment(one.time))),
  ));
  section.replaceChildren(make("h2", { id: "recent-title" }, "Recent debates"), make("ol", {}, ...rows));
}

// --- a debate while it is held ---

async function hold(main, context, asked) {
  const stopping = new AbortController();
  const signal = AbortSignal.any([stopping.signal, context.signal]);
  const stop = button("Stop", () => stopping.abort(), { class: "main" });
  const again = button("Change or ask again", () => showForm(main, context), { hidden: true });
  const view = debateView({ text: asked.question, team: asked.team, controls: [stop, again] });
  main.replaceChildren(view.element);
  view.focus();
  const body = {
    model: asked.team, messages: [{ role: "user", content: asked.question }], stream: true,
    ...(asked.seed === "" ? {} : { seed: Number(asked.seed) }),
    mada: { events: true, rounds: asked.rounds },
  };
  const clock = setInterval(view.tick, 250);
  let id = null;
  try {
    for await (const chunk of stream("/v1/chat/completions", { body, signal })) {
      for (const event of chunk.mada?.events ?? []) {
        if (event.type === "started") id = event.id;
        view.apply(event);
      }
    }
    history.pushState(null, "", `/debate/${encodeURIComponent(id)}`);
    const held = await getJson(`/api/debates/${encodeURIComponent(id)}`, { signal: context.signal });
    view.describe(held);
    again.before(...heldControls(held, context));
    again.remove();
  } catch (error) {
    if (context.signal.aborted) return;
    if (id === null && !stopping.signal.aborted) {
      showForm(main, context, { error });
      return;
    }
    view.end(stopping.signal.aborted ? null : error);
    again.hidden = false;
    again.focus();
  } finally {
    clearInterval(clock);
    stop.remove();
  }
}

// --- a debate that was held ---

async function showHeld(main, id, context) {
  const held = await getJson(`/api/debates/${encodeURIComponent(id)}`, { signal: context.signal });
  const view = debateView({ text: held.question, team: held.team, controls: heldControls(held, context) });
  for (const { number: round, role, turns } of held.rounds) {
    view.apply({ type: "round", round, role, agents: turns.map((turn) => turn.agent) });
    for (const turn of turns) view.apply({ ...turn, type: "turn" });
  }
  view.apply({ ...held.verdict, type: "verdict", ...held, isHeld: true });
  view.describe(held);
  main.replaceChildren(view.element);
}

function heldControls(held, { go }) {
  const refill = () => {
    Object.assign(draft, { question: held.question, team: held.team, rounds: held.rounds.length, seed: "" });
    go("/");
  };
  return [
    copyButton("Copy link", () => `${location.origin}/debate/${encodeURIComponent(held.id)}`),
    button("Ask again", refill),
    make("a", { href: "/" }, "All debates"),
  ];
}

// --- how a debate looks: question, verdict, and a row of cards for every round ---

const letter = (group) => (group < 26 ? String.fromCharCode(65 + group) : String(group + 1));
const colour = (group) => (group === null ? "group-none" : `group-${group % 6}`);

// An answer with the letter and the colour of all answers equal to it.
function badge({ answer, answer_html: html, group }) {
  if (answer === null) return make("span", { class: "badge group-none" }, "no answer");
  return make("span", { class: `badge ${colour(group)}` },
    make("b", {}, spoken("answer "), letter(group)), " ", fromServer("span", { class: "answer", dir: "auto" }, html));
}

// "all 3 agree" or "split: 2 × A, 1 × B, 1 without an answer"
function agreement(groups) {
  const counts = new Map();
  for (const group of groups) counts.set(group, (counts.get(group) ?? 0) + 1);
  if (groups.length === 1) return "";
  if (counts.size === 1 && !counts.has(null)) return `✓ all ${groups.length} agree`;
  const parts = [...counts].sort((one, other) => other[1] - one[1])
    .map(([group, count]) => (group === null ? `${count} without an answer` : `${count} × ${letter(group)}`));
  return `≠ split: ${parts.join(", ")}`;
}

function debateView({ text, team, controls }) {
  const title = make("h2", { tabindex: "-1" }, "Debate");
  const about = make("p", { class: "facts" }, make("bdi", {}, team));
  const question = make("div", { class: "question text", dir: "auto" }, text);
  const progress = make("progress", { max: "1", value: "0", "aria-label": "Turns finished" });
  const state = make("p", { class: "state" }, "Waiting for the team …");
  const facts = make("p", { class: "facts" });
  const outcome = make("div", { class: "verdict-box" }, state, progress);
  const rows = make("div", { class: "rows" });
  const element = make(
    "article", { class: "held" }, title, about, question,
    make("section", { class: "summary", "aria-label": "Verdict" }, outcome, facts,
      make("div", { class: "buttons" }, ...controls)),
    rows,
  );
  const rounds = []; // { label, note, cards: [{ element, text, badge, facts, turn or null }] }
  let expected = null;
  let began = null;
  let ended = false;

  const cards = () => rounds.flatMap((round) => round.cards);
  const handlers = { started, queued, round, delta, turn, verdict };
  const apply = (event) => handlers[event.type]?.(event);

  function started(event) {
    expected = event.generators.length + (event.rounds - 1) * event.critics.length;
  }

  function queued({ ahead }) {
    state.textContent = ahead > 0 ? `Waiting: ${counted(ahead, "request")} ahead` : "Waiting: next in line";
  }

  function round({ role, agents }) {
    began ??= performance.now();
    const name = `Round ${rounds.length + 1}: ${ROLES[role] ?? role}`;
    const note = make("span", { class: "agreement" });
    const made = agents.map(card);
    rounds.push({ name, note, cards: made });
    rows.append(make("section", { class: "round" }, make("h3", {}, name, " ", note),
      make("div", { class: "cards" }, ...made.map((one) => one.element))));
    tick();
  }

  function card(agent) {
    const one = { turn: null, letters: document.createTextNode("") };
    one.given = make("p", { class: "given" });
    one.facts = make("p", { class: "facts" });
    one.text = make("div", { class: "text", dir: "auto" }, one.letters);
    one.element = make("article", { class: "card live group-none" },
      make("header", {}, make("h4", { dir: "auto" }, agent), one.given, one.facts), one.text);
    return one;
  }

  function delta({ round: place, index, text: more }) {
    rounds[place - 1].cards[index].letters.appendData(more);
  }

  function turn(event) {
    const row = rounds[event.round - 1];
    const one = row.cards[event.index];
    one.turn = event;
    one.element.className = `card ${colour(event.group)}`;
    one.given.replaceChildren(badge(event));
    one.facts.replaceChildren(counted(event.tokens, "token"),
      event.truncated ? make("strong", { class: "cut" }, " · cut off at the limit") : "");
    one.text.replaceChildren(...said(event.html));
    const given = row.cards.filter((other) => other.turn !== null);
    if (given.length === row.cards.length) row.note.textContent = agreement(given.map((other) => other.turn.group));
    if (began !== null && !ended) announce(`${event.agent}: ${event.answer ?? "no answer"}`);
    tick();
  }

  // Thinking is folded; the tags around it are text, escaped like all that a model writes.
  function said(html) {
    const [first, ...rest] = html.split("&lt;/think&gt;");
    if (rest.length === 0) return [fromServer("div", {}, html)];
    const thinking = make("details", { class: "thinking" }, make("summary", {}, "Thinking"),
      fromServer("div", { class: "text" }, first.replace(/^\s*&lt;think&gt;\s*/, "").trimEnd()));
    return [thinking, fromServer("div", {}, rest.join("&lt;/think&gt;").trimStart())];
  }

  function verdict({ votes, tie, unanswered, seconds, tokens, prompt_tokens: read, isHeld, ...chosen }) {
    ended = true;
    const total = votes.reduce((sum, vote) => sum + vote.count, 0) + unanswered;
    const rest = [tie && "a tie, decided by the rounds before", unanswered > 0 && `${unanswered} without an answer`];
    outcome.replaceChildren(
      make("p", { class: "chosen" }, make("span", { class: "label" }, "Verdict"), " ", badge(chosen)),
      make("ul", { class: "votes", "aria-label": "Votes" }, ...votes.map((vote) => {
        const row = make("li", { class: colour(vote.group) }, badge(vote), ` ${vote.count} of ${counted(total, "vote")}`);
        row.style.setProperty("--share", `${(100 * vote.count) / total}%`);
        return row;
      })),
      make("p", { class: "note" }, rest.filter(Boolean).join(" · ")),
    );
    facts.textContent = [
      counted(tokens, "token"), `${counted(read, "token")} read`, duration(seconds),
      `${number(tokens / Math.max(seconds, 0.001), 0)} tokens/s`,
    ].join(" · ");
    if (!isHeld) announce(`Verdict: ${chosen.answer ?? "no answer"}. ${agreementOf(votes, unanswered)}`);
  }

  const agreementOf = (votes, unanswered) => agreement([
    ...votes.flatMap((vote) => Array(vote.count).fill(vote.group)), ...Array(unanswered).fill(null)]);

  // Once a debate is held, the server knows its mathematics and its seed.
  function describe(held) {
    question.replaceWith(fromServer("div", { class: "question text", dir: "auto" }, held.question_html));
    about.replaceChildren(make("bdi", {}, held.team), ` · seed ${held.seed} · `, moment(held.time));
    document.title = `mada: ${held.question.slice(0, 60)}`;
  }

  // How far it is. Tokens of unfinished turns are estimated from their length, by what finished ones needed.
  function tick() {
    if (began === null || ended) return;
    const finished = cards().filter((one) => one.turn !== null);
    const current = rounds.at(-1);
    const isDone = current.cards.filter((one) => one.turn !== null).length;
    state.textContent = `${current.name}, ${isDone} of ${current.cards.length} done`;
    progress.value = finished.length / (expected ?? cards().length);
    const known = finished.reduce((sum, one) => sum + one.turn.tokens, 0);
    const perToken = known > 0 ? finished.reduce((sum, one) => sum + one.turn.text.length, 0) / known : 3.5;
    const open = cards().reduce((sum, one) => sum + (one.turn === null ? one.letters.length : 0), 0);
    const seconds = (performance.now() - began) / 1000;
    const tokens = known + open / Math.max(perToken, 0.5);
    facts.textContent =
      `${duration(seconds)} · about ${counted(Math.round(tokens), "token")} · ${number(tokens / Math.max(seconds, 0.25))} tokens/s`;
  }

  // Ended before its verdict: stopped by the user, or by an error.
  function end(error) {
    tick();
    ended = true;
    for (const one of cards()) {
      if (one.turn !== null) continue;
      one.element.classList.remove("live");
      one.given.textContent = "not finished";
    }
    outcome.replaceChildren(error === null ? make("p", { class: "state" }, "Stopped.") : problem(error));
    if (error === null) announce("Stopped.");
  }

  return { element, apply, tick, describe, end, focus: () => title.focus() };
}
