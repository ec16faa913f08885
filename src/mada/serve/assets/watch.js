// Runs in progress: the list, and one run with its stages, curves, rollouts and memory, kept up to date by the server.
import { getJson, stream } from "./api.js";
import { TRAININGS, trainings } from "./curves.js";
import { announce, button, counted, duration, fromServer, make, moment, number, problem, spoken } from "./dom.js";

const PAUSE = 2000; // milliseconds
const SIGNS = { running: "▶", stopped: "■", finished: "✓", done: "✓", waiting: "○" };

export async function show(view, name, { signal }) {
  await (name === null ? showList(view, signal) : showRun(view, name, signal));
}

const gib = (bytes) => `${number(bytes / 2 ** 30, 1)} GiB`;

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Work again and again until the view is left; what goes wrong is shown until it goes well again.
async function repeat(work, trouble, signal) {
  while (!signal.aborted) {
    try {
      await work(() => trouble.replaceChildren());
      trouble.replaceChildren();
    } catch (error) {
      if (!signal.aborted && trouble.childElementCount === 0) trouble.replaceChildren(problem(error));
    }
    await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
  }
}

// --- the list ---

async function showList(view, signal) {
  const trouble = make("div");
  const empty = make("p", {}, "There are no runs here yet. A run that begins appears by itself.");
  const body = make("tbody");
  const head = ["Run", "State", "Stage", "Progress", "Time left", "Session began"];
  const table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head.map((one) => make("th", { scope: "col" }, one)))), body));
  const rows = new Map();
  view.append(make("h2", { tabindex: "-1" }, "Runs"), trouble, empty, table);

  async function update() {
    const { runs } = await getJson("/api/runs", { signal });
    empty.hidden = runs.length > 0;
    table.hidden = runs.length === 0;
    for (const [name, row] of rows) {
      if (!runs.some((run) => run.name === name)) { row.element.remove(); rows.delete(name); }
    }
    runs.forEach((run, place) => {
      if (!rows.has(run.name)) rows.set(run.name, listRow(run));
      const row = rows.get(run.name);
      row.update(run);
      if (body.children[place] !== row.element) body.insertBefore(row.element, body.children[place] ?? null);
    });
  }

  await update();
  repeat(update, trouble, signal);
}

function listRow(run) {
  const [state, stage, left, began] = Array.from({ length: 4 }, () => make("td"));
  const bar = make("progress", { "aria-hidden": "true", max: "1" });
  const done = make("span");
  const link = make("a", { href: `/watch/${encodeURIComponent(run.name)}`, title: run.folder, dir: "auto" }, run.name);
  const element = make("tr", {}, make("th", { scope: "row" }, link), state, stage,
    make("td", { class: "progress-cell" }, bar, done), left, began);
  let last = {};
  const update = (now) => {
    if (now.state !== last.state) state.replaceChildren(stateOf(now));
    setText(stage, now.problem ?? now.stage ?? "");
    showProgress(bar, now);
    setText(done, now.of ? `${number(now.done)} of ${number(now.of)}` : "");
    setText(left, now.eta === null ? "" : duration(now.eta));
    if (now.started !== last.started) began.replaceChildren(now.started === null ? "" : moment(now.started));
    last = now;
  };
  return { element, update };
}

function showProgress(bar, { done, of }) {
  bar.hidden = !of;
  if (of) Object.assign(bar, { max: of, value: done });
}

const stateOf = ({ state }) =>
  make("span", { class: `run-state ${state}` }, make("span", { "aria-hidden": "true" }, SIGNS[state]), ` ${state}`);

// --- one run ---

async function showRun(view, name, signal) {
  const address = `/api/runs/${encodeURIComponent(name)}`;
  const trouble = make("div");
  const parts = [heading(), progress(), trainings(), rollouts(), messages()];
  const run = {};

  function take(changed) {
    const before = { ...run };
    for (const { training, kind, agent, points } of changed.points ?? []) {
      (run.curves[training][kind][agent] ??= []).push(...points);
    }
    Object.assign(run, changed);
    for (const part of parts) part.update(run, changed);
    const share = run.state === "running" && run.of ? `${Math.floor((100 * run.done) / run.of)} % · ` : "";
    document.title = `${share}${run.name} · mada`;
    if (before.state && before.state !== run.state) announce(`The run is ${run.state}.`);
    else if (before.state && run.stage && before.stage !== run.stage) announce(`Stage ${run.stage}.`);
  }

  take(await getJson(address, { signal }));
  view.append(trouble, ...parts.map((part) => part.element));
  repeat(async (isWell) => {
    for await (const changed of stream(`${address}/events`, { signal })) {
      isWell();
      take(changed);
    }
  }, trouble, signal);
}

function heading() {
  const title = make("h2", { tabindex: "-1", dir: "auto" });
  const state = make("p", { class: "state" });
  const facts = make("p", { class: "facts" });
  const wrong = make("p", { class: "wrong" });
  const element = make("header", {}, title, state, facts, wrong);
  const update = (run, changed) => {
    setText(title, run.name);
    setText(wrong, run.problem ?? "");
    if ("state" in changed || "ended" in changed) {
      state.replaceChildren(stateOf(run), run.ended ? `: ${run.ended}` : "");
    }
    if ("started" in changed) {
      const began = run.started === null ? [] : [" · session began ", moment(run.started)];
      const known = [run.model, run.seed !== null && `seed ${run.seed}`, run.machine, run.folder].filter(Boolean);
      facts.replaceChildren(known.join(" · "), ...began);
    }
  };
  return { element, update };
}

function progress() {
  const stages = make("ol", { class: "stages", "aria-label": "Stages" });
  const bar = make("progress", { "aria-labelledby": "how-far" });
  const howFar = make("p", { id: "how-far" });
  const numbers = make("dl", { class: "outcome" });
  const element = make("section", { class: "now", "aria-label": "Progress" }, stages, bar, howFar, numbers);
  const update = (run, changed) => {
    if (changed.stages) stages.replaceChildren(...run.stages.map(stageItem));
    showProgress(bar, run);
    const what = run.stage in TRAININGS ? "step " : "";
    setText(howFar, [
      run.of && `${run.stage}: ${what}${number(run.done)} of ${number(run.of)}`,
      run.eta !== null && `about ${duration(run.eta)} left in this stage`, run.doing,
    ].filter(Boolean).join(" · "));
    if (["step_seconds", "rates", "memory"].some((key) => key in changed)) {
      numbers.replaceChildren(...rates(run), ...memory(run.memory));
    }
  };
  return { element, update };
}

const stageItem = ({ name, does, state, seconds }) =>
  make("li", { class: state, title: does, "aria-current": state === "running" ? "step" : null },
    make("span", { "aria-hidden": "true" }, SIGNS[state]), ` ${name}`, spoken(`: ${state}`),
    seconds === null ? null : make("span", { class: "facts" }, ` ${duration(seconds)}`));

const pair = (name, ...value) => make("div", {}, make("dt", {}, name), make("dd", {}, ...value));

function rates({ step_seconds: step, rates: speed }) {
  if (step === null) return [];
  const [sampling, learning] = step;
  const parts = `${duration(sampling)} sampling, ${duration(learning)} learning`;
  return [
    pair("A step takes", duration(sampling + learning), make("span", { class: "facts" }, ` ${parts}`)),
    speed && pair("Tokens per second", `${number(speed[0])} sampled, ${number(speed[1])} learnt`),
  ].filter(Boolean);
}

function memory(used) {
  if (used === null) return [];
  const gpus = used.gpus.map(([taken, all], place) => {
    const filled = make("span");
    filled.style.width = `${(100 * taken) / all}%`;
    const name = used.gpus.length > 1 ? `GPU ${place} memory` : "GPU memory";
    return pair(name, `${gib(taken)} of ${gib(all)}`, make("span", { class: "bar-of", "aria-hidden": "true" }, filled));
  });
  return [pair("Memory of the process", gib(used.process)), ...gpus];
}

// --- rollouts and messages ---

function rollouts() {
  const agents = make("div", { class: "buttons" });
  const hold = button("Pause", () => {
    isHeld = !isHeld;
    hold.setAttribute("aria-pressed", String(isHeld));
    if (!isHeld) draw(newest);
  }, { "aria-pressed": "false" });
  const where = make("p", { class: "facts" });
  const body = make("div");
  const element = make("section", { "aria-labelledby": "rollouts-title" },
    make("h3", { id: "rollouts-title" }, "Latest rollouts"), where, agents, body);
  let [newest, shown, chosen, isHeld] = [null, null, null, false];

  function draw(rollout) {
    shown = rollout;
    const group = shown.groups.find((one) => one.agent === chosen) ?? shown.groups[0];
    setText(where, `${TRAININGS[shown.training] ?? shown.training}, step ${number(shown.step)}: one group of each agent`);
    const choose = (agent) => button(agent, () => { chosen = agent; draw(shown); focusOn(agent); },
      { "aria-pressed": String(agent === group?.agent), "data-agent": agent });
    const names = shown.groups.map((one) => one.agent);
    if (agents.dataset.shown !== JSON.stringify([names, group?.agent])) {
      agents.dataset.shown = JSON.stringify([names, group?.agent]);
      agents.replaceChildren(...names.map(choose), hold);
    }
    body.replaceChildren(...(group ? groupOf(group) : []));
  }

  const focusOn = (agent) => [...agents.children].find((one) => one.dataset.agent === agent)?.focus();
  const update = (run, changed) => {
    if (!("rollouts" in changed)) return;
    newest = run.rollouts;
    element.hidden = newest === null;
    if (newest !== null && (!isHeld || shown === null)) draw(newest);
  };
  return { element, update };
}

const groupOf = ({ question_html: question, prompt, rollouts: group }) => [
  fromServer("div", { class: "text question", dir: "auto", title: prompt }, question),
  make("div", { class: "cards" }, ...group.map(rolloutCard)),
];

function rolloutCard({ html, tokens, reward, advantage, correct, truncated }) {
  const signed = (value, plus) => (value === null ? "–" : (value > 0 ? plus : "") + number(value, 2).replace("-", "−"));
  const verdict = correct === null ? null : correct ? "right" : "wrong";
  return make("article", { class: `card ${verdict === null ? "plain" : verdict}` },
    make("header", {},
      verdict && make("strong", { class: verdict }, make("span", { "aria-hidden": "true" }, correct ? "✓ " : "✗ "), verdict),
      make("span", {}, `reward ${signed(reward, "")}`),
      make("span", {}, `advantage ${signed(advantage, "+")}`),
      make("span", { class: "facts" }, counted(tokens, "token"), truncated && make("span", { class: "cut" }, ", cut off"))),
    fromServer("div", { class: "text", dir: "auto" }, html));
}

function messages() {
  const list = make("ul");
  const element = make("details", {}, make("summary", {}, "Messages"), list);
  const update = (run, changed) => {
    if (!changed.messages) return;
    element.hidden = run.messages.length === 0;
    list.replaceChildren(...run.messages.map((one) => make("li", {}, moment(one.time), ` ${one.message}`)));
  };
  return { element, update };
}
