// The debates that the page holds: an index of all of them, and their bodies in compressed chunks, opened when needed.
const Archive = (() => {
  const KEPT_CHUNKS = 6;

  function open() {
    const index = JSON.parse(document.getElementById("debate-index").textContent);
    const columns = index.columns;
    const chunks = new Map();
    let byProblem = null;

    // Everything the index says of a debate, by names.
    function describe(number) {
      const [benchmark, problem, question] = index.problems[columns.problem[number]];
      const [name, title] = index.systems[columns.system[number]];
      const answer = (place) => (place === null ? null : index.answers[place]);
      let seat = 0;
      const rounds = index.seatings[columns.seating[number]].map((agents) =>
        agents.map((agent) => {
          const isRight = columns.right[number][seat] === "1";
          return { agent: index.agents[agent], isRight, answer: answer(columns.answers[number][seat++]) };
        }),
      );
      return {
        number, problem, question, rounds, name, title,
        run: index.runs[columns.run[number]],
        benchmark: index.benchmarks[benchmark],
        seed: columns.seed[number],
        outcome: index.outcomes[columns.outcome[number]],
        verdict: answer(columns.verdict[number]),
      };
    }

    // Debates about the same problem, this one included.
    function sameProblem(number) {
      if (byProblem === null) {
        byProblem = new Map();
        columns.problem.forEach((problem, place) => {
          if (!byProblem.has(problem)) byProblem.set(problem, []);
          byProblem.get(problem).push(place);
        });
      }
      return byProblem.get(columns.problem[number]);
    }

    // The bodies of a chunk; the latest few stay open.
    function chunk(place) {
      const opened = chunks.get(place) ?? unpack(place);
      chunks.delete(place);
      chunks.set(place, opened);
      opened.catch(() => chunks.delete(place));
      if (chunks.size > KEPT_CHUNKS) chunks.delete(chunks.keys().next().value);
      return opened;
    }

    const body = async (number) => (await chunk(Math.floor(number / index.chunk)))[number % index.chunk];

    return { index, columns, count: index.count, describe, sameProblem, chunk, body, unpack };
  }

  // Read a chunk without keeping it.
  async function unpack(place) {
    const letters = atob((await written(place)).textContent);
    const bytes = new Uint8Array(letters.length);
    for (let byte = 0; byte < letters.length; byte += 1) bytes[byte] = letters.charCodeAt(byte);
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(plain).text());
  }

  // The page comes to life while the rest of the file is still being read, so a chunk may not be there yet. One with
  // something behind it is complete.
  async function written(place) {
    for (;;) {
      const isLoading = document.readyState === "loading";
      const element = document.getElementById(`chunk-${place}`);
      if (element !== null && (element.nextSibling !== null || !isLoading)) return element;
      if (!isLoading) throw new Error("The text of this debate is not in the file; the file may be incomplete.");
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  }

  const text = (body, place) => body.said[place].join("");

  // A prompt exactly as the model saw it: plain parts, and pieces of what was said before.
  function prompt(body, place) {
    const restored = (part) => (typeof part === "string" ? part : body.said[part[0]].slice(part[1], part[2]).join(""));
    return body.prompts[place].map(restored).join("");
  }

  return { open, text, prompt };
})();
