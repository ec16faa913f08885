// Trainings: the latest numbers of every agent, and curves whose lines grow while the training goes on.
import { make, number } from "./dom.js";

export const TRAININGS = { generators: "Generators", critics: "Critics" };
const DASHES = ["", "7 3", "2 3"]; // lines differ in more than their colour
const percent = (share) => `${number(100 * share, 1)} %`;
// `at` is the place in a point, whose first number is the step.
const CHARTS = [
  { title: "Reward", kind: "steps", at: 1, text: (value) => number(value, 2) },
  { title: "Validation accuracy", kind: "validations", at: 1, from: 0, text: percent },
  { title: "Tokens per reply", kind: "steps", at: 3, from: 0, text: (value) => number(value) },
  { title: "Cut off at the limit", kind: "steps", at: 4, from: 0, text: percent },
];

export function trainings() {
  const sections = Object.keys(TRAININGS).reverse().map(trainingSection); // the latest first
  const update = (run, changed) => {
    const names = changed.curves ? Object.keys(changed.curves) : (changed.points ?? []).map((one) => one.training);
    for (const one of sections) if (names.includes(one.name)) one.update(run.curves[one.name]);
  };
  return { element: make("div", {}, ...sections.map((one) => one.element)), update };
}

function trainingSection(name) {
  const charts = CHARTS.map(chart);
  const body = make("tbody");
  const head = ["Agent", "Reward", "Validation", "Best", "Tokens", "Cut off"];
  const columns = head.map((one, place) => make("th", { scope: "col", class: place > 0 && "number" }, one));
  const id = `${name}-title`;
  const element = make("section", { "aria-labelledby": id }, make("h3", { id }, TRAININGS[name]),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": id },
      make("table", {}, make("caption", { class: "spoken" }, "The latest numbers of every agent"),
        make("thead", {}, make("tr", {}, ...columns)), body)),
    make("div", { class: "curves" }, ...charts.map((one) => one.element)));
  const update = (curves) => {
    const agents = Object.keys({ ...curves.validations, ...curves.steps });
    element.hidden = agents.length === 0;
    body.replaceChildren(...agents.map((agent, place) => agentRow(agent, place, curves)));
    for (const one of charts) one.update(curves, agents);
  };
  return { name, element, update };
}

function agentRow(agent, place, { steps, validations }) {
  const step = steps[agent]?.at(-1) ?? [];
  const looks = (validations[agent] ?? []).filter(([, accuracy]) => accuracy !== null);
  const best = looks.reduce((found, look) => (found === null || look[1] > found[1] ? look : found), null);
  const swatch = svg("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" },
    svg("line", { ...lineOf(place), x1: 0, y1: 4, x2: 24, y2: 4 }));
  const texts = [
    [step[1], (value) => number(value, 2)], [looks.at(-1)?.[1], percent],
    [best, ([at, accuracy]) => `${percent(accuracy)} (step ${number(at)})`], [step[3], (value) => number(value)], [step[4], percent],
  ];
  return make("tr", {}, make("th", { scope: "row" }, swatch, ` ${agent}`),
    ...texts.map(([value, text]) => make("td", { class: "number" }, value === null || value === undefined ? "–" : text(value))));
}

const lineOf = (place) => ({ class: `line group-${place % 6}`, "stroke-dasharray": DASHES[place % DASHES.length] });

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [300, 165, 44, 22, 8, 8];

function chart({ title, kind, at, from, text }) {
  const axes = svg("g", { class: "axes" });
  const lines = svg("g");
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, axes, lines);
  const smoothing = make("small");
  const element = make("figure", {}, make("figcaption", {}, title, smoothing), drawing);
  let drawn = "";

  const update = (curves, agents) => {
    const series = agents.map((agent) => (curves[kind][agent] ?? []).filter((point) => point[at] !== null));
    // Means of the last few steps, so that lines of many steps can be told apart; validations are drawn as they are.
    const width = kind === "steps" ? series.reduce((most, points) => Math.max(most, Math.ceil(points.length / 25)), 1) : 1;
    const smooth = series.map((points) => smoothed(points, at, width));
    const all = smooth.flat();
    element.hidden = all.length === 0;
    if (element.hidden) return;
    const last = all.reduce((most, [step]) => Math.max(most, step), 1);
    const lowest = all.reduce((least, [, value]) => Math.min(least, value), from ?? Infinity);
    const ticks = ticksOf(lowest, all.reduce((most, [, value]) => Math.max(most, value), lowest));
    const x = (step) => LEFT + (step / last) * (WIDTH - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - ((value - ticks[0]) / (ticks.at(-1) - ticks[0])) * (HEIGHT - BOTTOM - TOP);
    if (drawn !== (drawn = `${last} ${ticks}`)) axes.replaceChildren(...axesOf({ ticks, last, x, y, text }));
    smoothing.textContent = width > 1 ? `, mean of ${width} steps` : "";
    agents.forEach((_, place) => {
      const line = lines.children[place] ?? lines.appendChild(svg("polyline", lineOf(place)));
      const points = smooth[place].map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
      if (points.length === 1) points.push(`${x(smooth[place][0][0]) + 2},${y(smooth[place][0][1])}`); // a dot
      line.setAttribute("points", points.join(" "));
    });
    const latest = agents.map((agent, place) => (series[place].length ? `${agent} ${text(series[place].at(-1)[at])}` : ""));
    drawing.setAttribute("aria-label", `${title} by step, now: ${latest.filter(Boolean).join(", ")}`);
  };
  return { element, update };
}

function smoothed(points, at, width) {
  let sum = 0;
  return points.map((point, place) => {
    sum += point[at] - (place >= width ? points[place - width][at] : 0);
    return [point[0], sum / Math.min(width, place + 1)];
  });
}

// About four round numbers, the first at most `low` and the last at least `high`.
function ticksOf(low, high) {
  const rough = Math.max(high - low, Math.abs(high) / 20, 0.03) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
  const first = Math.floor(low / step + 1e-9);
  const count = Math.max(1, Math.ceil(high / step - 1e-9) - first);
  return Array.from({ length: count + 1 }, (_, place) => (first + place) * step);
}

function axesOf({ ticks, last, x, y, text }) {
  const label = (words, place) => { const one = svg("text", place); one.textContent = words; return one; };
  const bottom = HEIGHT - BOTTOM;
  return [
    ...ticks.map((tick) => svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) })),
    ...ticks.map((tick) => label(text(tick), { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" })),
    label("0", { x: LEFT, y: bottom + 16, "text-anchor": "middle" }),
    label(`step ${number(last)}`, { x: x(last), y: bottom + 16, "text-anchor": "end" }),
  ];
}
