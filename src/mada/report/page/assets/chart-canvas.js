/* What charts are painted with: elements, numbers as the reports write them, scales, axes, shapes and labels.

   Colours come from classes (charts.css), so a change of scheme needs no painting. Data are untrusted: text only ever
   becomes text nodes. */

const ChartCanvas = (() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const NOTHING = "–";
  const COLOURS = 7;
  const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "triangle-down", "hexagon"];

  // Elements

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) element.setAttribute(name, String(value));
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }
  const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // Numbers, written as the reports write them

  /** Round as Python does, an exact half to the even neighbour, so that the page and the tables say the same. */
  function rounded(value, digits) {
    const halves = value * 2 ** (digits + 1);
    if (!Number.isInteger(halves) || halves % 2 === 0) return Number(value.toFixed(digits)) + 0;
    const below = Math.floor(value * 10 ** digits);
    return (below % 2 === 0 ? below : below + 1) / 10 ** digits + 0;
  }
  const number = (value, digits = 0) =>
    rounded(value, digits)
      .toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits })
      .replace("-", "−");
  const counted = (count, one, several = `${one}s`) => `${number(count)} ${count === 1 ? one : several}`;
  const percent = (share) => (share === null ? NOTHING : `${number(100 * share, 1)} %`);
  const signed = (value, digits) => (rounded(value, digits) >= 0 ? "+" : "") + number(value, digits);
  // An error below 0.2 points would lose half of itself to rounding, so it has two digits.
  const digitsFor = (error) => (error === null || 100 * error >= 0.195 ? 1 : 2);
  function uncertain(share, error, write = number) {
    const digits = digitsFor(error);
    return write(100 * share, digits) + (error === null ? "" : ` ± ${number(100 * error, digits)}`);
  }
  const accuracyText = (share, error) => `${uncertain(share, error)} %`;
  const pText = (p) => (p === null ? NOTHING : p < 0.001 ? "<0.001" : number(p, 3));
  /** A tick's number, with as many digits as it needs: `2.5`, `40`, `0.05`. */
  const tickText = (value) => String(Number(value.toPrecision(6)) + 0).replace("-", "−");
  function magnitude(value) {
    for (const [size, letter] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= size) return tickText(value / size) + letter;
    }
    return tickText(value);
  }
  const percentTick = (value) => tickText(100 * value);
  const named = (run, title) => (run ? `${run}: ${title}` : title);
  const distinct = (values) => [...new Set(values)];

  // Scales

  function linear([low, high], [from, to]) {
    const scale = (to - from) / (high - low || 1);
    return (value) => from + (value - low) * scale;
  }
  function tickStep(low, high, count, whole) {
    const rough = (high - low) / Math.max(1, count) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
    return whole ? Math.max(1, Math.ceil(step)) : step;
  }
  function ticks([low, high], count, { whole = false } = {}) {
    const step = tickStep(low, high, count, whole);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from(
      { length: Math.max(0, last - first + 1) },
      (_, index) => Number(((first + index) * step).toPrecision(12)),
    );
  }
  /** A range for shares that holds all values, has air around them, ends on ticks or halfway between, from 0 to 1. */
  function shareDomain(values) {
    const least = values.reduce((a, b) => Math.min(a, b), Infinity);
    const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
    const air = Math.max(0.08 * (most - least), 0.02);
    const step = tickStep(least - air, most + air, 5, false) / 2;
    const outward = (value, round) => Number((round(value / step) * step).toPrecision(12));
    return [Math.max(0, outward(least - air, Math.floor)), Math.min(1, outward(most + air, Math.ceil))];
  }

  // Drawing

  const seriesClass = (index) => `chart-series-${(index % COLOURS) + 1}`;
  const dashClass = (index) => `chart-dash-${(index % 4) + 1}`;
  // After seven series the colours come again, and the shapes by one further, so that the two together still tell.
  const shapeOf = (index) => SHAPES[(index + Math.floor(index / COLOURS)) % SHAPES.length];

  function polygon(x, y, corners, radius, turn = -90) {
    const points = Array.from({ length: corners }, (_, corner) => {
      const angle = ((turn + (360 * corner) / corners) * Math.PI) / 180;
      const reach = typeof radius === "function" ? radius(corner) : radius;
      return `${(x + reach * Math.cos(angle)).toFixed(2)},${(y + reach * Math.sin(angle)).toFixed(2)}`;
    });
    return `M${points.join("L")}Z`;
  }
  function shapePath(shape, x, y, r) {
    switch (shape) {
      case "square": return polygon(x, y, 4, r * 1.2, -45);
      case "triangle": return polygon(x, y + r * 0.2, 3, r * 1.3);
      case "triangle-down": return polygon(x, y - r * 0.2, 3, r * 1.3, 90);
      case "diamond": return polygon(x, y, 4, r * 1.3);
      case "hexagon": return polygon(x, y, 6, r * 1.1);
      case "star": return polygon(x, y, 10, (corner) => (corner % 2 ? r * 0.72 : r * 1.7));
      case "cross": {
        const [a, b] = [r * 1.15, r * 0.42];
        return `M${x - b},${y - a}h${2 * b}v${a - b}h${a - b}v${2 * b}h${b - a}v${a - b}h${-2 * b}`
          + `v${b - a}h${b - a}v${-2 * b}h${a - b}Z`;
      }
      default: return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`;
    }
  }
  const line = (points) =>
    points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

  /** What a chart paints on: the SVG of one width, the marks that pointer and keys can reach, and what is shown. */
  function canvasOf(root, width, state) {
    const lengths = new Map();
    const marks = [];
    const canvas = {
      root,
      width,
      isNarrow: width < 520,
      choice: state.choice,
      marks,
      shows: (...keys) => keys.every((key) => !state.hidden.has(key)),
      add(tag, attributes, ...children) {
        const element = svg(tag, attributes, ...children);
        root.append(element);
        return element;
      },
      text(x, y, content, kind = "chart-text", anchor = "start") {
        return canvas.add("text", { x, y, class: kind, "text-anchor": anchor }, content);
      },
      length(content, kind = "chart-text") {
        const key = `${kind}\n${content}`;
        if (!lengths.has(key)) {
          const probe = canvas.text(0, 0, content, kind);
          lengths.set(key, probe.getComputedTextLength());
          probe.remove();
        }
        return lengths.get(key);
      },
      /** Shorten a text to a length in pixels; the whole of it is in the tooltip and the table. */
      fitted(content, length, kind) {
        if (canvas.length(content, kind) <= length) return content;
        const characters = [...content].slice(0, 200);
        const start = (count) => `${characters.slice(0, count).join("").trimEnd()}…`;
        let [fits, overflows] = [1, characters.length];
        while (overflows - fits > 1) {
          const middle = (fits + overflows) >> 1;
          if (canvas.length(start(middle), kind) <= length) fits = middle;
          else overflows = middle;
        }
        return start(fits);
      },
      /** Make something reachable: `{group, x, y, title, lines}`, and `element` where it is more than a point. */
      mark(mark) {
        marks.push(mark);
        mark.element?.classList.add("chart-mark");
      },
    };
    return canvas;
  }

  /** Grid lines, ticks and the names of both axes; `x` and `y` are `{scale, ticks, text, label}`. */
  function axes(canvas, plot, { x, y }) {
    for (const tick of y.ticks) {
      canvas.add("line", { class: "chart-grid", x1: plot.left, x2: plot.right, y1: y.scale(tick), y2: y.scale(tick) });
      canvas.text(plot.left - 7, y.scale(tick) + 4, y.text(tick), "chart-tick", "end");
    }
    canvas.add("line", { class: "chart-axis", x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom });
    for (const tick of x.ticks) {
      canvas.add("line", {
        class: "chart-axis", x1: x.scale(tick), x2: x.scale(tick), y1: plot.bottom, y2: plot.bottom + 4,
      });
      canvas.text(x.scale(tick), plot.bottom + 17, x.text(tick), "chart-tick", "middle");
    }
    canvas.text(plot.labelLeft ?? 0, plot.top - 12, y.label, "chart-label");
    canvas.text(plot.right, plot.bottom + 34, x.label, "chart-label", "end");
  }

  const box = (x, y, width, height) => ({ left: x, top: y, right: x + width, bottom: y + height });
  const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  /** Boxes along a line, for labels to keep off it. */
  function boxesAlong(points) {
    return points.slice(1).flatMap(([x, y], index) => {
      const [fromX, fromY] = points[index];
      const count = Math.ceil(Math.hypot(x - fromX, y - fromY) / 6);
      return Array.from({ length: count }, (_, step) => {
        const part = (step + 0.5) / count;
        return box(fromX + (x - fromX) * part - 2, fromY + (y - fromY) * part - 2, 4, 4);
      });
    });
  }

  /** Write each label at the first free place around its point, in order of importance, or further off with a line.

      A label that finds no place is left out: the tooltip has it. */
  function placeLabels(canvas, plot, labels, obstacles) {
    const taken = [...obstacles];
    const written = [];
    for (const { x, y, radius, content, kind = "chart-text" } of labels) {
      const words = canvas.fitted(content, Math.min(230, 0.55 * (plot.right - plot.left)), kind);
      const [width, height, gap] = [canvas.length(words, kind), 13, radius + 4];
      const middle = y - height / 2;
      const places = [
        [x + gap, middle], [x - gap - width, middle], [x - width / 2, y - gap - height], [x - width / 2, y + gap],
        [x + gap * 0.6, y - gap - height + 2], [x - gap * 0.6 - width, y - gap - height + 2],
        [x + gap * 0.6, y + gap - 2], [x - gap * 0.6 - width, y + gap - 2],
        [x - width * 0.2, y - gap - height - 2], [x - width * 0.8, y - gap - height - 2],
        [x - width * 0.2, y + gap + 2], [x - width * 0.8, y + gap + 2],
      ].map(([left, top]) => box(left, top, width, height));
      const further = [26, 40, 54].flatMap((reach) => [
        [x + reach * 0.8, middle - reach * 0.6], [x + reach * 0.8, middle + reach * 0.6],
        [x - reach * 0.8 - width, middle - reach * 0.6], [x - reach * 0.8 - width, middle + reach * 0.6],
      ]).map(([left, top]) => box(left, top, width, height));
      const isFree = (place) =>
        place.left >= plot.left && place.right <= plot.right + 8
        && place.top >= plot.top - 8 && place.bottom <= plot.bottom
        && !taken.some((other) => overlap(place, other));
      const leader = (place) =>
        [[x, y], [place.left > x ? place.left - 3 : place.right + 3, (place.top + place.bottom) / 2]];
      const isClear = (place) =>
        !boxesAlong(leader(place)).some((part) => written.some((other) => overlap(part, other)));
      const near = places.find(isFree);
      const free = near ?? (
        kind.includes("chart-faint") ? undefined : further.find((place) => isFree(place) && isClear(place))
      );
      if (!free) continue;
      if (!near) {
        canvas.add("path", { class: "chart-leader", d: line(leader(free)) });
        taken.push(...boxesAlong(leader(free)));
      }
      taken.push(free);
      written.push(free);
      canvas.text(free.left, free.top + 10.5, words, kind);
    }
  }

  return Object.freeze({
    NOTHING, html, svg, number, counted, percent, signed, uncertain, accuracyText, pText, tickText, magnitude,
    percentTick, named, distinct, linear, ticks, shareDomain, seriesClass, dashClass, shapeOf, shapePath, line, axes,
    box, boxesAlong, placeLabels, canvasOf,
  });
})();
