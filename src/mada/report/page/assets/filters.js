// Which debates are shown: one choice or none in every dimension, and how many debates every other choice would give.
const Filters = (() => {
  const MANY_ROUNDS = ["corrected", "damaged", "right throughout", "wrong throughout"];
  const ONE_ROUND = ["right", "wrong"];

  // A dimension has options {key, label}. `has` says whether a debate falls under an option, `each` visits those it
  // falls under; both are called for every debate at every key press, so they make nothing new.
  function dimensionsOf(archive, chosen) {
    const { index, columns } = archive;
    const seeds = [...new Set(columns.seed)].sort((one, other) => one - other);
    const outcomes = [MANY_ROUNDS, ONE_ROUND]
      .filter((names) => columns.outcome.some((place) => names.includes(index.outcomes[place])))
      .flat();
    const names = index.systems.map(([name]) => name);
    const systemKey = ([name, title]) => (names.indexOf(name) === names.lastIndexOf(name) ? name : `${name}/${title}`);
    const named = (values) => values.map((value) => ({ key: String(value), label: String(value) }));
    const seats = seatsOf(archive);
    return [
      { name: "run", label: "Run", options: named(index.runs), ...single(columns.run) },
      {
        name: "system", label: "System", ...single(columns.system),
        options: index.systems.map((system) => ({ key: systemKey(system), label: system[1] })),
      },
      {
        name: "benchmark", label: "Benchmark", options: named(index.benchmarks),
        ...single(columns.problem.map((problem) => index.problems[problem][0])),
      },
      {
        name: "seed", label: "Seed", options: named(seeds),
        ...single(columns.seed.map((seed) => seeds.indexOf(seed))),
      },
      {
        name: "agent", label: "Agent", unit: "seat", options: named(index.agents),
        has: (number, agent) => seats.passes(number, agent, chosen.was),
        each: (number, visit) => {
          for (const agent of seats.agents(number)) if (seats.passes(number, agent, chosen.was)) visit(agent);
        },
      },
      {
        name: "was", label: "Its last turn was", unit: "seat", needs: "agent", options: named(["right", "wrong"]),
        has: () => true, // the agent's dimension sees to both
        each: (number, visit) => {
          for (const was of [0, 1]) if (chosen.agent !== null && seats.passes(number, chosen.agent, was)) visit(was);
        },
      },
      {
        name: "outcome", label: "Outcome", isRow: true, options: named(outcomes),
        ...single(columns.outcome.map((outcome) => outcomes.indexOf(index.outcomes[outcome]))),
      },
      {
        name: "first", label: "Generators", isRow: true, options: named(["agreed", "split"]),
        ...single(columns.agreed.map((agreed) => 1 - agreed)),
      },
      {
        name: "vote", label: "Vote", isRow: true, options: named(["tie"]),
        ...single(columns.tie.map((tie) => tie - 1)),
      },
    ].filter((dimension) => dimension.options.length > 1 || dimension.name === "vote");
  }

  // A dimension in which a debate falls under one option, or none (-1).
  function single(values) {
    return {
      has: (number, option) => values[number] === option,
      each: (number, visit) => { if (values[number] !== -1) visit(values[number]); },
    };
  }

  // Who was right in the last round they spoke in. An agent with several seats in it passes if one of them does.
  function seatsOf(archive) {
    const { index, columns } = archive;
    const lastSeats = index.seatings.map((rounds) => {
      const seats = new Map();
      let seat = 0;
      for (const agents of rounds) {
        const here = new Map();
        for (const agent of agents) here.set(agent, [...(here.get(agent) ?? []), seat++]);
        for (const [agent, places] of here) seats.set(agent, places);
      }
      return seats;
    });
    function passes(number, agent, was) {
      const seats = lastSeats[columns.seating[number]].get(agent);
      if (seats === undefined) return false;
      return was === null || seats.some((seat) => columns.right[number][seat] === (was === 0 ? "1" : "0"));
    }
    return { passes, agents: (number) => lastSeats[columns.seating[number]].keys() };
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
