// Which debates are shown: one choice or none in every dimension, and how many debates every other choice would give.
const Filters = (() => {
  const OUTCOMES = [["corrected", "damaged", "right throughout", "wrong throughout"], ["right", "wrong"]];
  const ROW = { isRow: true };

  // A dimension has options {key, label}. `has` says whether a debate falls under an option, `each` visits those it
  // falls under; both are called for every debate at every key press, so they allocate nothing.
  function dimensionsOf(archive, chosen) {
    const { index, columns } = archive;
    const seeds = [...new Set(columns.seed)].sort((one, other) => one - other);
    const outcomes = OUTCOMES
      .filter((names) => columns.outcome.some((place) => names.includes(index.outcomes[place])))
      .flat();
    const names = index.systems.map(([name]) => name);
    const systems = index.systems.map(([name, title]) => (
      { key: names.indexOf(name) === names.lastIndexOf(name) ? name : `${name}/${title}`, label: title }
    ));
    const passes = passesOf(archive);
    // `values` has the number of the option that a debate falls under, or -1.
    const single = (name, label, options, values, others = {}) => ({
      name, label, options: named(options), ...others,
      has: (number, option) => values[number] === option,
      each: (number, visit) => { if (values[number] !== -1) visit(values[number]); },
    });
    const ofSeats = (name, label, options, passes, others = {}) => ({
      name, label, options: named(options), unit: "seat", has: passes, ...others,
      each: (number, visit) => options.forEach((_, option) => { if (passes(number, option)) visit(option); }),
    });
    return [
      single("run", "Run", index.runs, columns.run),
      single("system", "System", systems, columns.system),
      single("benchmark", "Benchmark", index.benchmarks, columns.problem.map((problem) => index.problems[problem][0])),
      single("seed", "Seed", seeds, columns.seed.map((seed) => seeds.indexOf(seed))),
      ofSeats("agent", "Agent", index.agents, (number, agent) => passes(number, agent, chosen.was)),
      ofSeats("was", "Its last turn was", ["right", "wrong"],
        (number, was) => chosen.agent !== null && passes(number, chosen.agent, was),
        { needs: "agent", has: () => true }), // the agent's dimension filters by both
      single("outcome", "Outcome", outcomes, columns.outcome.map((place) => outcomes.indexOf(index.outcomes[place])), ROW),
      single("first", "Generators", ["agreed", "split"], columns.agreed.map((agreed) => 1 - agreed), ROW),
      single("vote", "Vote", ["tie"], columns.tie.map((tie) => tie - 1), ROW),
    ].filter((dimension) => dimension.options.length > 1 || dimension.name === "vote");
  }

  const named = (values) => values.map((value) => (value.key ? value : { key: String(value), label: String(value) }));

  // Whether an agent was right or wrong (or either: null) in the last round it spoke in, in one of its seats.
  function passesOf({ index, columns }) {
    const lastSeats = index.seatings.map((rounds) => {
      const seats = new Map();
      let seat = 0;
      for (const agents of rounds) {
        const here = Map.groupBy(agents.map((agent) => [agent, seat++]), ([agent]) => agent);
        for (const [agent, places] of here) seats.set(agent, places.map(([, place]) => place));
      }
      return seats;
    });
    return (number, agent, was) => {
      const seats = lastSeats[columns.seating[number]].get(agent);
      if (seats === undefined || was === null) return seats !== undefined;
      return seats.some((seat) => columns.right[number][seat] === (was === 0 ? "1" : "0"));
    };
  }

  function create(archive) {
    const chosen = { agent: null, was: null };
    const dimensions = dimensionsOf(archive, chosen);
    for (const { name } of dimensions) chosen[name] = null;

    function choose(name, option) {
      chosen[name] = option;
      if (chosen.agent === null) chosen.was = null;
    }

    // The debates that pass everything, and counts[name][option]: debates under an option if it were chosen instead.
    function apply(passesText) {
      const counts = dimensions.map(({ options }) => options.map(() => 0));
      const visits = counts.map((own) => (option) => { own[option] += 1; });
      const numbers = [];
      for (let number = 0; number < archive.count; number += 1) {
        if (!passesText(number)) continue;
        let failed = 0;
        let failing = -1;
        for (let place = 0; place < dimensions.length && failed < 2; place += 1) {
          const { name, has } = dimensions[place];
          if (chosen[name] === null || has(number, chosen[name])) continue;
          failed += 1;
          failing = place;
        }
        if (failed === 0) {
          numbers.push(number);
          dimensions.forEach(({ each }, place) => each(number, visits[place]));
        } else if (failed === 1) {
          const { unit } = dimensions[failing];
          dimensions.forEach((dimension, place) => {
            if (place === failing || (unit && dimension.unit === unit)) dimension.each(number, visits[place]);
          });
        }
      }
      return { numbers, counts: Object.fromEntries(dimensions.map(({ name }, place) => [name, counts[place]])) };
    }

    function settings() {
      const set = dimensions.filter(({ name }) => chosen[name] !== null);
      return Object.fromEntries(set.map(({ name, options }) => [name, options[chosen[name]].key]));
    }

    function restore(settings) {
      for (const { name, options } of dimensions) {
        const place = options.findIndex(({ key }) => key === settings[name]);
        chosen[name] = place === -1 ? null : place;
      }
      if (chosen.agent === null) chosen.was = null;
    }

    return { dimensions, chosen, choose, apply, settings, restore };
  }

  return { create };
})();

// Searching for words: at once in questions and answers, which the index has, or chunk by chunk in everything said.
const Search = (() => {
  const folded = (text) => text.toLowerCase();

  function create(archive) {
    const { index, columns } = archive;
    const questions = index.problems.map(([, problem, question]) => folded(`${problem} ${question}`));
    const answers = index.answers.map(folded);
    let current = 0;

    // A test for debates whose question, problem, verdict or answers have the words.
    function inIndex(words) {
      const wanted = folded(words.trim());
      if (wanted === "") return () => true;
      const inQuestion = questions.map((question) => question.includes(wanted));
      const inAnswer = answers.map((answer) => answer.includes(wanted));
      const isAnswered = (place) => place !== null && inAnswer[place];
      return (number) =>
        inQuestion[columns.problem[number]] ||
        isAnswered(columns.verdict[number]) ||
        columns.answers[number].some(isAnswered);
    }

    // Search all bodies in the background; `report(found, searched)` is called now and then, and not after `cancel`.
    async function inEverything(words, report) {
      const mine = (current += 1);
      const wanted = folded(words.trim());
      const found = new Set();
      let reported = performance.now();
      for (let start = 0; start < archive.count; start += index.chunk) {
        const bodies = await archive.unpack(start / index.chunk);
        if (mine !== current) return;
        bodies.forEach((body, place) => {
          if (isIn(body, wanted)) found.add(start + place);
        });
        const searched = Math.min(start + index.chunk, archive.count);
        if (performance.now() - reported > 250 || searched === archive.count) {
          report(found, searched);
          reported = performance.now();
          // Let key presses and scrolling be handled.
          await new Promise((resolve) => setTimeout(resolve));
          if (mine !== current) return;
        }
      }
    }

    function cancel() {
      current += 1;
    }

    return { inIndex, inEverything, cancel };
  }

  function isIn(body, wanted) {
    const answers = body.rounds.flatMap(({ turns }) => turns.map(({ answer }) => answer ?? ""));
    return (
      body.said.some((_, place) => folded(Archive.text(body, place)).includes(wanted)) ||
      [body.reference, ...answers].some((answer) => folded(answer).includes(wanted))
    );
  }

  return { create };
})();

// The form above the list: words to search for, a choice in every dimension, and counts beside each option.
const Controls = (() => {
  const { make, button, number } = Elements;

  function create(filters, { change, type, clear }) {
    const words = make("input", { type: "search", id: "debate-search", autocomplete: "off", spellcheck: "false" });
    const everything = make("input", { type: "checkbox", id: "debate-search-said" });
    words.addEventListener("input", type);
    everything.addEventListener("change", type);
    const menus = filters.dimensions.filter(({ isRow }) => !isRow).map(menu);
    const rows = filters.dimensions.filter(({ isRow }) => isRow).map(buttons);
    const clearing = button("Clear", clear, { class: "clear" });
    const element = make(
      "form",
      { class: "filters", "aria-label": "Filters", role: "search", onsubmit: (event) => event.preventDefault() },
      make("div", { class: "search" },
        make("label", { for: "debate-search" }, "Search"), words,
        make("label", { class: "check", for: "debate-search-said" }, everything, "in everything said")),
      make("div", { class: "choices" }, ...menus.map((part) => part.element)),
      make("div", { class: "choices" }, ...rows.map((part) => part.element)),
    );

    function menu({ name, label, options, needs }) {
      const shown = options.map((option, place) => make("option", { value: place }, option.label));
      const all = make("option", { value: "" }, "any");
      const select = make("select", { id: `filter-${name}` }, all, ...shown);
      select.addEventListener("change", () => change(name, select.value === "" ? null : Number(select.value)));
      const part = make("div", { class: "choice" }, make("label", { for: select.id }, label), select);
      const update = ({ [name]: counts }) => {
        part.hidden = needs !== undefined && filters.chosen[needs] === null;
        shown.forEach((option, place) => {
          option.textContent = `${options[place].label} (${number(counts[place])})`;
          option.disabled = counts[place] === 0 && filters.chosen[name] !== place;
        });
        select.value = filters.chosen[name] ?? "";
        select.classList.toggle("chosen", filters.chosen[name] !== null);
      };
      return { element: part, update };
    }

    function buttons({ name, label, options }) {
      const shown = options.map((option, place) => {
        const count = make("span", { class: "count" });
        const choice = button(option.label, () => change(name, filters.chosen[name] === place ? null : place));
        choice.append(" ", count);
        return { choice, count };
      });
      const part = make(
        "div", { class: "choice buttons", role: "group", "aria-label": label, id: `filter-${name}` },
        make("span", { class: "label", "aria-hidden": "true" }, label),
        ...shown.map(({ choice }) => choice),
      );
      const update = ({ [name]: counts }) => shown.forEach(({ choice, count }, place) => {
        count.textContent = number(counts[place]);
        choice.setAttribute("aria-pressed", String(filters.chosen[name] === place));
        choice.disabled = counts[place] === 0 && filters.chosen[name] !== place;
      });
      return { element: part, update };
    }

    function update(counts, { isFiltered }) {
      for (const part of [...menus, ...rows]) part.update(counts);
      clearing.disabled = !isFiltered;
    }

    return { element, words, everything, clearing, update };
  }

  return { create };
})();
