// Elements, words and numbers for every view. Texts become text nodes, never markup, except in `fromServer`.

// make("p", { class: "note", onclick: f }, "text", otherElement): null and false leave out attributes and children.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// What the server made as HTML: its fields `html` and `…_html`, and nothing else.
export function fromServer(name, attributes, html) {
  const element = make(name, attributes);
  element.innerHTML = html;
  // A formula on a line of its own needs no line ends around it.
  for (const { previousSibling: before, nextSibling: after } of element.querySelectorAll("math[display=block]")) {
    if (before?.nodeType === Node.TEXT_NODE) before.data = before.data.trimEnd();
    if (after?.nodeType === Node.TEXT_NODE) after.data = after.data.replace(/^[ \t]*\n*[ \t]*/, "");
  }
  return element;
}

// Text for screen readers only.
export const spoken = (text) => make("span", { class: "spoken" }, text);

export const button = (label, onclick, attributes = {}) =>
  make("button", { type: "button", onclick, ...attributes }, label);

export const number = (value, digits = 0) => value.toLocaleString("en-GB", { maximumFractionDigits: digits });
export const counted = (count, one, several = `${one}s`) => `${number(count)} ${count === 1 ? one : several}`;

// 8.2 → "8.2 s", 100 → "1 min 40 s", 7300 → "2 h 1 min"
export function duration(seconds) {
  if (seconds < 59.95) return `${number(seconds, seconds < 9.95 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export const moment = (unix) => {
  const date = new Date(unix * 1000);
  const words = date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  return make("time", { datetime: date.toISOString() }, words);
};

// Have screen readers say something once they have finished what they are saying.
export function announce(text) {
  const region = document.getElementById("announcements");
  region.append(make("p", {}, text));
  while (region.childElementCount > 5) region.firstChild.remove();
}

// An error with what to do about it: actions are buttons.
export const problem = (error, ...actions) =>
  make("div", { class: "problem", role: "alert" }, make("p", {}, error.message), ...actions);

// Null where the browser keeps its clipboard closed, as it does for servers reached by plain HTTP.
export function copyButton(label, content) {
  if (!navigator.clipboard) return null;
  const copy = button(label, async () => {
    const isCopied = await navigator.clipboard.writeText(content()).then(() => true, () => false);
    copy.textContent = isCopied ? "Copied" : "Could not copy";
    announce(copy.textContent);
    setTimeout(() => { copy.textContent = label; }, 1500);
  });
  return copy;
}
