/* The charts of a report, as SVG, and what is around each: legend, switch, tooltip, table. Every chart is a file of its
   own that registers how it is painted.

   A chart is painted again when its width, its hidden series or its switch change; nothing is kept between two
   paintings but that state. */

const Charts = (() => {
  "use strict";
  const { html, svg, distinct, seriesClass, dashClass, shapePath, canvasOf } = ChartCanvas;

  const LEAST_WIDTH = 280;
  const REACH = 28; // how far from a mark, in pixels, the pointer may be and still mean it
  const painters = new Map();
  const watched = new WeakMap();
  let chartsSoFar = 0;

  /** The sign of a series as its legend shows it: a line, a shape, both, or a filled box. */
  function sign({ series, shape = null, dash = null, kind = "" }) {
    const parts = [];
    if (kind === "area") parts.push(svg("rect", {
      class: "chart-sign-area", x: 2, y: 2, width: 16, height: 10, rx: 2,
    }));
    if (dash !== null) parts.push(svg("path", { class: `chart-line ${dashClass(dash)}`, d: "M0,7H20" }));
    if (shape !== null) parts.push(svg("path", { class: "chart-point", d: shapePath(shape, 10, 7, 4.5) }));
    const colour = typeof series === "number" ? seriesClass(series) : series;
    return svg("svg", { class: `chart-sign ${colour}`, viewBox: "0 0 20 14", "aria-hidden": "true" }, ...parts);
  }

  function legendOf(groups, state, repaint) {
    const legend = html("div", { class: "chart-legend chart-part" });
    for (const { label, items } of groups.filter((group) => group.items.length > 0)) {
      const row = html("div", { class: "chart-keys", role: "group", "aria-label": label || "Series" });
      if (label) row.append(html("span", { class: "chart-keys-label" }, label));
      for (const item of items) {
        const pressed = state.hidden.has(item.key) ? "false" : "true";
        const button = html(
          "button",
          { type: "button", class: "chart-key", "aria-pressed": pressed },
          sign(item),
          html("span", {}, item.label),
        );
        button.addEventListener("click", () => {
          const hides = !state.hidden.has(item.key);
          if (hides) state.hidden.add(item.key);
          else state.hidden.delete(item.key);
          button.setAttribute("aria-pressed", String(!hides));
          repaint();
        });
        row.append(button);
      }
      legend.append(row);
    }
    return legend.children.length ? legend : null;
  }

  function switchOf({ label, choices }, state, repaint) {
    const group = html("div", { class: "chart-switch chart-part", role: "group", "aria-label": label });
    for (const choice of choices) {
      const button = html("button", { type: "button", "aria-pressed": String(choice === state.choice) }, choice);
      button.addEventListener("click", () => {
        state.choice = choice;
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
        repaint();
      });
      group.append(button);
    }
    return group;
  }

  function tableOf({ caption, head, rows }) {
    const cell = (value, index) => {
      const isNumber = index > 0 && /^[−+<]?\d/.test(value);
      if (index === 0) return html("th", { scope: "row" }, value);
      return html("td", isNumber ? { class: "chart-number" } : {}, value);
    };
    return html("table", {}, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, name)))),
      html("tbody", {}, ...rows.map((row) =>
        html("tr", {}, ...row.map((value, index) => cell(String(value), index))))));
  }

  /** The button under a chart and the table it reveals, made when first asked for: training has thousands of rows. */
  function tablePart(figureId, title, tables) {
    const region = html("div", {
      class: "chart-table", id: `${figureId}-table`, role: "region", "aria-label": `Table: ${title}`, tabindex: 0,
      hidden: "",
    });
    const button = html(
      "button",
      { type: "button", class: "chart-table-button", "aria-expanded": "false", "aria-controls": region.id },
      "Show as table",
    );
    button.addEventListener("click", () => {
      if (region.children.length === 0) region.append(...tables().map(tableOf));
      region.hidden = !region.hidden;
      button.setAttribute("aria-expanded", String(!region.hidden));
      button.textContent = region.hidden ? "Show as table" : "Hide table";
    });
    return html("div", { class: "chart-part" }, button, region);
  }

  // A number and its sign stay on one line of a tooltip.
  const bound = (text) => text.replace(/ (%|±) ?/g, (sign) => sign.replace(/^ /, "\u00a0"));

  /** Let pointer and arrow keys reach the marks of a painted chart, one at a time, and say what they are. */
  function reachable(stage, root, tip) {
    const ring = svg("circle", { class: "chart-ring", r: 8 });
    let marks = [];
    let active = null;

    function leave() {
      active?.element?.classList.remove("is-active");
      active?.leave?.();
      active = null;
      ring.remove();
      tip.hidden = true;
    }
    function enter(mark) {
      if (mark === active) return;
      leave();
      active = mark;
      // Marks at the same place hide one another, so the tooltip speaks for all of them.
      const alike = mark.element ? [mark] : marks.filter((other) =>
        !other.element && Math.hypot(other.x - mark.x, other.y - mark.y) < 2);
      const said = [mark, ...alike.filter((other) => other !== mark)];
      tip.replaceChildren(...said.slice(0, 4).flatMap(({ title, lines }) => [
        html("strong", {}, title), ...lines.map((text) => html("span", {}, bound(text)))]));
      if (said.length > 4) tip.append(html("span", {}, `and ${said.length - 4} more here`));
      mark.element?.classList.add("is-active");
      mark.enter?.();
      if (!mark.element) {
        ring.setAttribute("cx", mark.x);
        ring.setAttribute("cy", mark.y);
        root.append(ring);
      }
      tip.hidden = false;
      const [frame, outer] = [root.getBoundingClientRect(), stage.getBoundingClientRect()];
      const ratio = frame.width / (root.viewBox.baseVal.width || 1);
      const [x, y] = [frame.left - outer.left + mark.x * ratio, frame.top - outer.top + mark.y * ratio];
      const [width, height] = [tip.offsetWidth, tip.offsetHeight];
      const left = x + 14 + width <= outer.width ? x + 14 : x - 14 - width;
      tip.style.left = `${Math.max(0, Math.min(left, outer.width - width))}px`;
      tip.style.top = `${y - height - 10 < -48 ? y + 14 : y - height - 10}px`;
    }
    function step(key) {
      const index = marks.indexOf(active);
      if (index < 0) return marks[key === "End" ? marks.length - 1 : 0];
      if (key === "Home") return marks[0];
      if (key === "End") return marks[marks.length - 1];
      if (key === "ArrowRight") return marks[Math.min(index + 1, marks.length - 1)];
      if (key === "ArrowLeft") return marks[Math.max(index - 1, 0)];
      // Up and down: the mark of the neighbouring group that is nearest across.
      const groups = distinct(marks.map((mark) => mark.group));
      const group = groups[groups.indexOf(active.group) + (key === "ArrowDown" ? 1 : -1)];
      const there = marks.filter((mark) => mark.group === group);
      return there.length === 0 ? active
        : there.reduce((best, mark) => (Math.abs(mark.x - active.x) < Math.abs(best.x - active.x) ? mark : best));
    }
    function point(event) {
      const element = event.target.closest?.(".chart-mark");
      const own = element && marks.find((mark) => mark.element === element);
      if (own) return enter(own);
      const frame = root.getBoundingClientRect();
      const ratio = frame.width / (root.viewBox.baseVal.width || 1);
      const distance = (mark) =>
        Math.hypot(event.clientX - frame.left - mark.x * ratio, event.clientY - frame.top - mark.y * ratio);
      const [nearest, away] = marks.filter((mark) => !mark.element).reduce(
        ([best, least], mark) => (distance(mark) < least ? [mark, distance(mark)] : [best, least]), [null, REACH]);
      return away < REACH ? enter(nearest) : leave();
    }
    root.addEventListener("pointermove", point);
    root.addEventListener("pointerdown", point);
    root.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
    root.addEventListener("blur", leave);
    root.addEventListener(
      "focus",
      () => root.matches(":focus-visible") && marks.length > 0 && !active && enter(marks[0]),
    );
    root.addEventListener("keydown", (event) => {
      // Escape closes one thing at a time: the tooltip, then whatever the page has open.
      if (event.key === "Escape" && active) {
        event.stopPropagation();
        leave();
      }
      const moves = ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key);
      if (!moves || marks.length === 0) return;
      event.preventDefault();
      const mark = step(event.key);
      mark.reveal?.();
      enter(mark);
    });
    return (fresh) => {
      leave();
      marks = fresh;
    };
  }

  /** Say how charts of a name are painted: `{isEmpty, summary, legend, note, tables, paint}` and maybe `choices`. */
  function register(name, painter) {
    painters.set(name, painter);
  }

  /** Draw the chart of `data` into a figure, in place of one that was there before. */
  function draw(figure, data) {
    const painter = painters.get(data.name);
    if (!painter) throw new Error(`there is no chart called ${data.name}`);
    watched.get(figure)?.disconnect();
    for (const part of figure.querySelectorAll(":scope > .chart-part")) part.remove();
    if (!figure.querySelector("figcaption")) figure.prepend(html("figcaption", {}, data.title));
    if (painter.isEmpty(data)) {
      figure.append(html("p", { class: "chart-empty chart-part" }, "There is nothing to show here."));
      return;
    }
    chartsSoFar += 1;
    const id = `chart-${chartsSoFar}`;
    const choices = painter.choices?.(data) ?? null;
    const state = { hidden: new Set(), choice: choices ? choices.first : null };
    const root = svg("svg", {
      role: "img", "aria-label": painter.summary(data), "aria-describedby": `${id}-hint`, tabindex: 0,
    });
    const scroll = html("div", { class: "chart-scroll" }, root);
    const tip = html("div", { class: "chart-tip", role: "status", hidden: "" });
    const hint = html("span", { class: "chart-hint", id: `${id}-hint` }, "Arrow keys move from mark to mark.");
    const stage = html("div", { class: "chart-stage chart-part" }, scroll, tip, hint);
    const reach = reachable(stage, root, tip);
    let painted = 0;

    function paint() {
      painted = stage.clientWidth;
      if (painted === 0) return; // hidden: the observer tells when it is not
      const width = Math.max(LEAST_WIDTH, painted);
      root.replaceChildren();
      const canvas = canvasOf(root, width, state);
      const size = painter.paint(canvas, data, scroll);
      root.setAttribute("viewBox", `0 0 ${size.width ?? width} ${size.height}`);
      root.classList.toggle("is-wide", (size.width ?? width) > width);
      if ((size.width ?? width) > width) root.setAttribute("width", size.width);
      else root.removeAttribute("width");
      reach(canvas.marks);
    }
    const legend = legendOf(painter.legend(data), state, paint);
    if (choices) figure.append(switchOf(choices, state, paint));
    figure.append(stage);
    if (legend) figure.append(legend);
    figure.append(
      html("p", { class: "chart-note chart-part" }, painter.note(data)),
      tablePart(id, data.title, () => painter.tables(data)),
    );
    // In the next frame: painting changes the height, which an observer must not do while it is told of changes.
    const observer = new ResizeObserver(() => requestAnimationFrame(() => stage.clientWidth !== painted && paint()));
    observer.observe(stage);
    watched.set(figure, observer);
    paint();
  }

  return Object.freeze({ draw, register });
})();
