// The page's address: which debate is open and which filters are set, so that both can be sent to somebody.
// #debate=run/system/benchmark/seed/problem&outcome=damaged&text=train ; a plain #name is a section of the report.
const Links = (() => {
  // Half a surrogate pair has no encoding; its stand-in is the same whenever the address is made.
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
    const state = { debate: null, settings: {} };
    for (const part of hash.split("&").filter(Boolean)) {
      const [name, value] = [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)];
      if (name === "debate") state.debate = value;
      else state.settings[name] = decoded(value);
    }
    return state;
  }

  function decoded(value) {
    try {
      return decodeURIComponent(value);
    } catch {
      return value;
    }
  }

  function hashOf({ debate, settings }) {
    const parts = Object.entries(settings).map(([name, value]) => `${name}=${encoded(value)}`);
    return "#" + [...(debate === null ? [] : [`debate=${debate}`]), ...parts].join("&");
  }

  // A step that "back" undoes, unless it only refines where we are.
  function write(state, { isStep }) {
    const hash = hashOf(state);
    if (hash === (location.hash || "#")) return;
    if (isStep) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  }

  const address = (state) => location.href.split("#")[0] + hashOf(state);

  return { keyOf, find, read, write, address, hashOf };
})();
