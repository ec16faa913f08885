// Helpers that create elements. Texts become text nodes, never markup.
const Elements = (() => {
  // make("p", { class: "note", onclick: f }, "text", otherElement): null and false leave out attributes and children.
  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  }

  // For screen readers alone, and for all others alone.
  const spoken = (text) => make("span", { class: "spoken" }, text);
  const seen = (text, attributes = {}) => make("span", { "aria-hidden": "true", ...attributes }, text);
  const button = (label, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, label);
  const number = (value) => value.toLocaleString("en-GB");
  const counted = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;
  const joined = (parts, between = " · ") => parts.flatMap((part, place) => (place ? [between, part] : [part]));

  // Right or wrong as a sign, a word and a colour.
  function verdict(isRight) {
    const word = isRight ? "right" : "wrong";
    return make("span", { class: `verdict ${word}` }, seen(isRight ? "✓ " : "✗ "), word);
  }

  return { make, spoken, seen, button, number, counted, joined, verdict };
})();

// The debates of the page: an index of all of them, and their bodies in compressed chunks, opened when needed.
const Archive = (() => {
  function open() {
    const index = JSON.parse(document.getElementById("debate-index").textContent);
    const columns = index.columns;
    let opened = { place: -1, bodies: null };

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

    // The latest chunk stays open.
    async function body(number) {
      const place = Math.floor(number / index.chunk);
      if (opened.place !== place) opened = { place, bodies: unpack(place) };
      return (await opened.bodies)[number % index.chunk];
    }

    return { index, columns, count: index.count, describe, body, unpack };
  }

  // Read a chunk without keeping it.
  async function unpack(place) {
    const bytes = Uint8Array.from(atob((await written(place)).textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(plain).text());
  }

  // The page works while the rest of the file is still loading, so a chunk may not be there yet. One that is followed
  // by something is complete.
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

// The page's address: which debate is open and which filters are set, so that both can be sent to somebody.
// #debate=run/system/benchmark/seed/problem&outcome=damaged&text=train ; a plain #name is a section of the report.
const Links = (() => {
  // A lone surrogate has no encoding; it is replaced the same way whenever an address is made.
  const encoded = (text) => encodeURIComponent(String(text).replace(/\p{Surrogate}/gu, "\ufffd"));

  function keyOf(archive, number) {
    const one = archive.describe(number);
    return [one.run, one.name, one.benchmark, one.seed, one.problem].map(encoded).join("/");
  }

  // The debate of a key, or null where the page has none.
  function find(archive, key) {
    for (let number = 0; number < archive.count; number += 1) if (keyOf(archive, number) === key) return number;
    return null;
  }

  // {debate: key or null, settings: {name: text}}, or null where the address is a section's.
  function read() {
    const hash = location.hash.slice(1);
    if (hash !== "" && !hash.includes("=")) return null;
    const { debate, ...settings } = Object.fromEntries(new URLSearchParams(hash));
    return { debate: debate === undefined ? null : /(?:^|&)debate=([^&]*)/.exec(hash)?.[1] ?? null, settings };
  }

  const hashOf = (archive, number) => `#debate=${keyOf(archive, number)}`;

  function write({ debate, settings }, { isStep }) {
    const parts = Object.entries(settings).map(([name, value]) => `${name}=${encoded(value)}`);
    const hash = "#" + [...(debate === null ? [] : [`debate=${debate}`]), ...parts].join("&");
    if (hash === (location.hash || "#")) return;
    history[isStep ? "pushState" : "replaceState"](null, "", hash);
  }

  return { keyOf, find, read, write, hashOf };
})();
