// Ask a team and watch its debate arrive; read a debate that was held; the list of recent ones.
import { getJson, stream } from "./api.js";
import { announce, button, copyButton, counted, duration, fromServer, make, moment, number, problem, spoken }
  from "./dom.js";

const ROLES = { generator: "generators", critic: "critics" };
const MOST_ROUNDS = 8;
// What the form holds, for as long as the page is open.
const draft = { question: "", team: null, rounds: null, seed: "" };

const addressOf = (id) => `/debate/${encodeURIComponent(id)}`;
const read = (id, { signal }) => getJson(`/api/debates/${encodeURIComponent(id)}`, { signal });

export async function show(main, id, context) {
  if (id === null) showForm(main, context);
  else await showHeld(main, id, context);
}

// --- the form, and recent debates ---

function showForm(main, context, error = null) {
  const { teams } = context.info;
  const team = () => teams.find((one) => one.name === draft.team) ?? teams[0];
  const ask = () => hold(main, context, { ...draft, team: team().name, rounds: Number(rounds.value) });
  const submit = (event) => {
    event.preventDefault();
    if (question.value.trim() !== "") ask();
  };
  const onEnter = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  };
  const question = make("textarea", {
    id: "question", rows: "3", required: true, dir: "auto", enterkeyhint: "go", "aria-describedby": "question-hint",
    placeholder: "A box holds 12 rows of 7 apples. A third of them are green. How many are not?",
    onkeydown: onEnter, oninput: () => { draft.question = question.value; },
  });
  const names = make("select", { id: "team", onchange: () => {
    Object.assign(draft, { team: names.value, rounds: null });
    describe();
  } }, ...teams.map((one) => make("option", { selected: one === team() }, one.name)));
  const rounds = make("select", { id: "rounds", onchange: () => { draft.rounds = Number(rounds.value); } });
  const seed = make("input", {
    id: "seed", inputmode: "numeric", pattern: "[0-9]{1,15}", title: "a whole number", placeholder: "any",
    autocomplete: "off", oninput: () => { draft.seed = seed.value.trim(); },
  });
  const about = make("p", { class: "note" });
  const field = (input, label) => make("div", { class: "choice" }, make("label", { for: input.id }, label), input);
  const form = make(
    "form", { class: "ask", onsubmit: submit },
    make("h2", {}, make("label", { for: "question" }, "Ask a team")), question,
    make("div", { class: "choices" }, field(names, "Team"), field(rounds, "Rounds"), field(seed, "Seed"),
      make("button", { type: "submit", class: "main" }, "Ask"),
      make("p", { class: "note", id: "question-hint" }, "Enter asks, Shift+Enter starts a new line")),
    about,
  );

  function describe() {
    const { generators, critics, model, trained, rounds: usual, max_tokens: most } = team();
    const possible = Array.from({ length: critics.length > 0 ? MOST_ROUNDS : 1 }, (_, place) => place + 1);
    rounds.replaceChildren(...possible.map((count) =>
      make("option", { selected: count === (draft.rounds ?? usual) }, String(count))));
    const agents = [counted(generators.length, "generator"), critics.length > 0 && counted(critics.length, "critic")];
    about.textContent = [agents.filter(Boolean).join(" and "), model, trained ? "trained" : "not trained",
      `answers of at most ${counted(most, "token")}`].join(" · ");
  }

  document.title = "mada";
  [question.value, seed.value] = [draft.question, draft.seed];
  describe();
  const recent = make("section", { class: "recent", "aria-labelledby": "recent-title", hidden: true });
  const refused = error && (error.retryAfter ? busy(error, form, ask, context) : problem(error));
  main.replaceChildren(form, ...(refused ? [refused] : []), recent);
  if (matchMedia("(pointer: fine)").matches) question.focus({ preventScroll: true });
  listRecent(recent, context).catch((failure) => context.signal.aborted || recent.replaceChildren(problem(failure)));
}

// The server said how long to wait: ask again then, unless the user asks before, changes the form or does not want to.
function busy(error, form, ask, { signal }) {
  let left = Math.max(1, Math.ceil(error.retryAfter));
  // The alert is read once, not every second.
  const clock = make("p", { "aria-hidden": "true" });
  const tell = () => { clock.textContent = `Asking again in ${duration(left)} …`; };
  const cancel = () => { clearInterval(timer); clock.remove(); stop.remove(); };
  const stop = button("Do not ask again", () => { cancel(); form.querySelector("textarea").focus(); });
  const timer = setInterval(() => {
    left -= 1;
    const isWanted = form.isConnected && !signal.aborted;
    if (isWanted && left > 0) return tell();
    cancel();
    if (isWanted) ask();
  }, 1000);
  form.addEventListener("input", cancel);
  tell();
  return problem(error, clock, button("Ask now", () => { cancel(); ask(); }), stop);
}

async function listRecent(section, { signal }) {
  const { debates } = await getJson("/api/debates?limit=50", { signal });
  const rows = debates.map((one) => make("li", {}, make(
    "a", { href: addressOf(one.id) },
    make("span", { class: "asked-first", dir: "auto" }, one.question),
    make("bdi", { class: one.answer === null ? "answer none" : "answer" }, one.answer ?? "no answer"),
    make("span", { class: "where" }, make("bdi", {}, one.team), " · ", moment(one.time), " · ", one.unanimous
      ? make("span", { class: "right" }, "✓ unanimous") : make("span", { class: "wrong" }, "≠ not unanimous")),
  )));
  section.replaceChildren(make("h2", { id: "recent-title" }, "Recent debates"), make("ol", {}, ...rows));
  section.hidden = debates.length === 0;
}

// --- a debate: while it is held, and as the server keeps it ---

async function hold(main, context, asked) {
  const stopping = new AbortController();
  const view = debateView(asked);
  view.control(button("Stop", () => stopping.abort(), { class: "main" }));
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
    const signal = AbortSignal.any([stopping.signal, context.signal]);
    for await (const chunk of stream("/v1/chat/completions", { body, signal })) {
      for (const event of chunk.mada?.events ?? []) {
        if (event.type === "started") id = event.id;
        view.apply(event);
        if (event.type === "turn") announce(`${event.agent}: ${event.answer ?? "no answer"}`);
      }
    }
    announce(view.element.querySelector(".outcome-now").innerText);
  } catch (error) {
    if (context.signal.aborted) return;
    if (id === null && !stopping.signal.aborted) return showForm(main, context, error);
    view.end(stopping.signal.aborted ? null : error);
    return view.control(button("Ask again", () => showForm(main, context)));
  } finally {
    clearInterval(clock);
  }
  if (context.signal.aborted) return;
  history.pushState(null, "", addressOf(id));
  // The verdict is there already; what the server would add can be missed.
  const held = await read(id, context).catch(() => null);
  if (held !== null) view.describe(held, context);
  else view.control(make("a", { href: "/" }, "All debates"));
}

async function showHeld(main, id, context) {
  const held = await read(id, context);
  const view = debateView(held);
  for (const { number: round, role, turns } of held.rounds) {
    view.apply({ type: "round", round, role, agents: turns.map((turn) => turn.agent) });
    for (const turn of turns) view.apply({ ...turn, type: "turn" });
  }
  view.apply({ ...held, ...held.verdict, type: "verdict" });
  view.describe(held, context);
  main.replaceChildren(view.element);
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

// "✓ all 3 agree", "2 agree, 1 without an answer", "≠ split: 2 × A, 1 × B"
function agreement(groups) {
  const given = groups.filter((group) => group !== null);
  const distinct = [...new Set(given)];
  const count = (wanted) => given.filter((group) => group === wanted).length;
  const missing = groups.length > given.length ? [`${groups.length - given.length} without an answer`] : [];
  if (groups.length === 1 || given.length === 0) return missing.join("");
  if (distinct.length === 1 && missing.length === 0) return `✓ all ${given.length} agree`;
  if (distinct.length === 1) return [given.length > 1 ? `${given.length} agree` : "1 answer", ...missing].join(", ");
  distinct.sort((one, other) => count(other) - count(one));
  const parts = distinct.map((one) => `${count(one)} × ${letter(one)}`);
  return `≠ split: ${[...parts, ...missing].join(", ")}`;
}

// Thinking is folded; the tags around it are text, escaped like all that a model writes.
function said(html) {
  const [first, ...rest] = html.split("&lt;/think&gt;");
  if (rest.length === 0) return [fromServer("div", {}, html)];
  const thinking = make("details", { class: "thinking" }, make("summary", {}, "Thinking"),
    fromServer("div", { class: "text" }, first.replace(/^\s*&lt;think&gt;\s*/, "").trimEnd()));
  return [thinking, fromServer("div", {}, rest.join("&lt;/think&gt;").trimStart())];
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

function debateView({ question: asked, team }) {
  const title = make("h2", { tabindex: "-1" }, "Debate");
  const about = make("p", { class: "facts" }, make("bdi", {}, team));
  const question = make("div", { class: "question text", dir: "auto" }, asked);
  const state = make("p", { class: "state" }, "Waiting for the team …");
  const progress = make("progress", { max: "1", value: "0", "aria-label": "Turns finished" });
  const outcome = make("div", { class: "outcome-now" }, state, progress);
  const facts = make("p", { class: "facts" });
  const buttons = make("div", { class: "buttons" });
  const summary = make("section", { class: "summary", "aria-label": "Verdict" }, outcome, facts, buttons);
  const rows = make("div", { class: "rows" });
  const element = make("article", { class: "held" },
    make("div", { class: "top" }, make("div", {}, title, about, question), summary), rows);
  const rounds = []; // { name, note, cards: [card(…)] }
  let expected = null;
  let began = null;
  document.title = `mada: ${asked.slice(0, 60)}`;

  const handlers = {
    started({ generators, critics, rounds: count }) {
      expected = generators.length + (count - 1) * critics.length;
    },

    queued({ ahead }) {
      state.textContent = ahead > 0 ? `Waiting: ${counted(ahead, "request")} ahead` : "Waiting: next in line";
    },

    round({ role, agents }) {
      began ??= performance.now();
      const made = { name: `Round ${rounds.length + 1}: ${ROLES[role] ?? role}`, cards: agents.map(card) };
      made.note = make("span", { class: "agreement" });
      rounds.push(made);
      rows.append(make("section", { class: "round" }, make("h3", {}, made.name, " ", made.note),
        make("div", { class: "cards" }, ...made.cards.map((one) => one.element))));
      tick();
    },

    delta({ round, index, text }) {
      rounds[round - 1].cards[index].letters.appendData(text);
    },

    turn(turn) {
      const { note, cards } = rounds[turn.round - 1];
      const one = cards[turn.index];
      one.turn = turn;
      one.element.className = `card ${colour(turn.group)}`;
      one.given.replaceChildren(badge(turn));
      one.facts.replaceChildren(counted(turn.tokens, "token"));
      if (turn.truncated) one.facts.append(" · ", make("strong", { class: "cut" }, "cut off at the limit"));
      one.text.replaceChildren(...said(turn.html));
      if (cards.every((other) => other.turn)) note.textContent = agreement(cards.map((other) => other.turn.group));
      tick();
    },

    verdict({ votes, tie, unanswered, seconds, tokens, prompt_tokens: seen, ...chosen }) {
      began = null;
      const total = votes.reduce((sum, vote) => sum + vote.count, 0) + unanswered;
      const others = [tie && "tie, decided by earlier rounds", unanswered > 0 && `${unanswered} without an answer`];
      const list = votes.map((vote) => {
        const share = ` ${vote.count} of ${counted(total, "vote")}`;
        const row = make("li", { class: colour(vote.group) }, badge(vote), share);
        row.style.setProperty("--share", `${(100 * vote.count) / total}%`);
        return row;
      });
      outcome.replaceChildren(make("p", { class: "state" }, "Verdict ", badge(chosen)),
        make("ul", { class: "votes" }, ...list), make("p", { class: "note" }, others.filter(Boolean).join(" · ")));
      facts.textContent = [counted(tokens, "token"), `${counted(seen, "token")} read`, duration(seconds),
        `${number(tokens / Math.max(seconds, 0.001))} tokens/s`].join(" · ");
    },
  };

  // How far it is. Tokens of unfinished turns are estimated from their length, by what finished ones needed.
  function tick() {
    if (began === null) return;
    const cards = rounds.flatMap((round) => round.cards);
    const { name, cards: current } = rounds.at(-1);
    const sum = (of) => cards.reduce((total, one) => total + of(one), 0);
    state.textContent = `${name}, ${current.filter((one) => one.turn).length} of ${current.length} done`;
    progress.value = sum((one) => (one.turn ? 1 : 0)) / (expected ?? cards.length);
    const known = sum((one) => one.turn?.tokens ?? 0);
    const perToken = known > 0 ? sum((one) => one.turn?.text.length ?? 0) / known : 3.5;
    const tokens = known + sum((one) => (one.turn ? 0 : one.letters.length)) / Math.max(perToken, 0.5);
    const seconds = (performance.now() - began) / 1000;
    facts.textContent = [duration(seconds), `about ${counted(Math.round(tokens), "token")}`,
      `${number(tokens / Math.max(seconds, 0.25))} tokens/s`].join(" · ");
  }

  // Ended before its verdict: stopped by the user, or by an error.
  function end(error) {
    began = null;
    for (const one of element.querySelectorAll(".live")) {
      one.classList.remove("live");
      one.querySelector(".facts").textContent = "not finished";
    }
    outcome.replaceChildren(error === null ? make("p", { class: "state" }, "Stopped.") : problem(error));
  }

  // The buttons of the moment; the focus stays among them.
  function control(...wanted) {
    const hadFocus = buttons.contains(document.activeElement);
    buttons.replaceChildren(...wanted.filter(Boolean));
    if (hadFocus) buttons.firstChild.focus();
  }

  // What the server knows of a debate once it is held: its mathematics, its seed, its address.
  function describe(held, { go }) {
    question.replaceWith(fromServer("div", { class: "question text", dir: "auto" }, held.question_html));
    about.replaceChildren(make("bdi", {}, held.team), ` · seed ${held.seed} · `, moment(held.time));
    const again = () => {
      Object.assign(draft, { question: held.question, team: held.team, rounds: held.rounds.length, seed: "" });
      go("/");
    };
    control(copyButton("Copy link", () => location.origin + addressOf(held.id)), button("Ask again", again),
      make("a", { href: "/" }, "All debates"));
  }

  const apply = (event) => handlers[event.type]?.(event);
  return { element, apply, tick, end, control, describe, focus: () => title.focus() };
}
