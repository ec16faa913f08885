// How every element of the debate browser is made. Texts become text nodes, never markup, whoever wrote them.
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

  // Words for those who listen to the page, beside a mark for those who see it.
  const spoken = (text) => make("span", { class: "spoken" }, text);

  const seen = (text, attributes = {}) => make("span", { "aria-hidden": "true", ...attributes }, text);

  const button = (label, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, label);

  const number = (value) => value.toLocaleString("en-GB");

  const counted = (count, one, several = `${one}s`) => `${number(count)} ${count === 1 ? one : several}`;

  // Right or wrong as a sign, a word and a colour, so that no one of them is needed.
  function verdict(isRight, word = isRight ? "right" : "wrong") {
    return make("span", { class: `verdict ${isRight ? "right" : "wrong"}` }, seen(isRight ? "✓ " : "✗ "), word);
  }

  return { make, spoken, seen, button, number, counted, verdict };
})();
