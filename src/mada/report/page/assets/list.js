// The list of debates. Rows have one height, and only visible ones exist, however many debates there are.
const List = (() => {
  const { make, joined, spoken, seen } = Elements;
  const BEYOND = 6;
  const MOST_DOTS = 8;

  // What the first vote was and what the verdict is; a debate of one round has only the latter.
  const MARKS = {
    corrected: "✗✓", damaged: "✓✗", "right throughout": "✓✓", "wrong throughout": "✗✗", right: "✓", wrong: "✗",
  };

  const isRight = (outcome) => ["corrected", "right throughout", "right"].includes(outcome);

  function mark(outcome) {
    const signs = [...MARKS[outcome]].map((sign) => seen(sign, { class: sign === "✓" ? "right" : "wrong" }));
    return make("span", { class: "mark", title: outcome }, ...signs, spoken(outcome));
  }

  // A circle per seat and round, filled for a right answer; of many seats their number.
  function dots(rounds) {
    const right = rounds.map((seats) => seats.filter((seat) => seat.isRight).length);
    const groups = rounds.map((seats, place) => {
      if (seats.length > MOST_DOTS) return seen(`${right[place]}/${seats.length}`, { class: "round-dots" });
      const circles = seats.map((seat) => make("i", { class: seat.isRight ? "dot right" : "dot wrong" }));
      return make("span", { class: "round-dots", "aria-hidden": "true" }, ...circles);
    });
    const words = rounds.map((seats, place) => `round ${place + 1}: ${right[place]} of ${seats.length} right`).join(", ");
    return make("span", { class: "dots", title: words }, ...groups, spoken(words));
  }

  function create(archive, { open }) {
    const space = make("div", { class: "rows", role: "presentation" });
    const element = make(
      "div", { class: "list", role: "listbox", tabindex: "0", "aria-label": "Debates", id: "debate-list" }, space,
    );
    const rows = new Map();
    const hasSeveral = { run: archive.index.runs.length > 1, system: archive.index.systems.length > 1 };
    let numbers = [];
    let active = 0;
    let height = 0;

    function row(position) {
      const one = archive.describe(numbers[position]);
      const where = [
        hasSeveral.run && one.run, hasSeveral.system && one.title, one.benchmark, `seed ${one.seed}`,
      ].filter(Boolean);
      return make(
        "div",
        {
          class: "row", role: "option", id: `row-${numbers[position]}`,
          "aria-setsize": numbers.length, "aria-posinset": position + 1, "aria-selected": String(position === active),
          style: `transform: translateY(${position * height}px)`,
          onclick: () => { moveTo(position); open(numbers[position]); },
        },
        mark(one.outcome),
        make("span", { class: "asked" },
          make("span", { class: "beginning", dir: "auto" }, one.question.slice(0, 200)),
          make("span", { class: "where" }, ...joined(where.map((text) => make("bdi", {}, text))))),
        make("span", { class: "answer", dir: "auto" }, spoken("answer "), one.verdict ?? "no answer"),
        dots(one.rounds),
      );
    }

    function draw() {
      if (height === 0 || element.clientHeight === 0) return;
      const first = Math.max(0, Math.floor(element.scrollTop / height) - BEYOND);
      const end = Math.min(numbers.length, Math.ceil((element.scrollTop + element.clientHeight) / height) + BEYOND);
      for (const [position, shown] of rows) {
        if (position >= first && position < end) continue;
        shown.remove();
        rows.delete(position);
      }
      // In order, for screen readers.
      for (let position = end - 1, next = null; position >= first; position -= 1) {
        if (!rows.has(position)) {
          rows.set(position, row(position));
          space.insertBefore(rows.get(position), next);
        }
        next = rows.get(position);
      }
      if (rows.has(active)) element.setAttribute("aria-activedescendant", rows.get(active).id);
      else element.removeAttribute("aria-activedescendant");
    }

    function redraw() {
      for (const shown of rows.values()) shown.remove();
      rows.clear();
      height = parseFloat(getComputedStyle(element).getPropertyValue("--row"));
      space.style.height = `${numbers.length * height}px`;
      draw();
    }

    // Show these debates, with one of them active if it is among them.
    function show(wanted, current = numbers[active]) {
      numbers = wanted;
      active = Math.max(0, numbers.indexOf(current));
      element.hidden = numbers.length === 0;
      redraw();
      reveal();
    }

    function moveTo(position) {
      if (numbers.length === 0) return;
      rows.get(active)?.setAttribute("aria-selected", "false");
      active = Math.min(numbers.length - 1, Math.max(0, position));
      rows.get(active)?.setAttribute("aria-selected", "true");
      reveal();
      draw();
    }

    function reveal() {
      const top = active * height;
      if (top < element.scrollTop) element.scrollTop = top;
      const overlap = top + height - element.scrollTop - element.clientHeight;
      if (overlap > 0 && element.clientHeight > 0) element.scrollTop += overlap;
    }

    // Scroll the active row into view, within the list and on the page.
    function focus() {
      element.focus({ preventScroll: true });
      reveal();
      draw();
      rows.get(active)?.scrollIntoView({ block: "nearest" });
    }

    function steps(key) {
      const page = Math.max(1, Math.floor(element.clientHeight / height) - 1);
      return { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[key];
    }

    element.addEventListener("scroll", draw, { passive: true });
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" || event.key === " ") open(numbers[active]);
      else if (steps(event.key) !== undefined) moveTo(active + steps(event.key));
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => { if (element.clientHeight > 0) redraw(); }).observe(element);

    return {
      element, show, moveTo,
      move: (by) => moveTo(active + by),
      focus,
      get numbers() { return numbers; },
    };
  }

  return { create, mark, isRight };
})();
