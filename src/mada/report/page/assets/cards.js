// What one agent said, as a card: its answer, its text with mathematics set and thinking folded, its exact prompt.
const Cards = (() => {
  const { make, button, counted, verdict } = Elements;
  const THINKING_ENDS = "<" + "/think>";

  // A formula as packing made it, [name, {attributes}, child, …]: elements by name, texts as text.
  function formula([name, ...rest]) {
    if (!/^(m[a-z]+|none)$/.test(name)) throw new Error(`${name} is not an element of a formula`);
    const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
    const hasAttributes = typeof rest[0] === "object" && !Array.isArray(rest[0]);
    for (const [key, value] of hasAttributes ? Object.entries(rest.shift()) : []) element.setAttribute(key, value);
    element.append(...rest.map((child) => (typeof child === "string" ? child : formula(child))));
    return element;
  }

  // Text with its mathematics set, or letter by letter. Places count letters, not halves of surrogate pairs.
  function text(content, formulas, { isRaw }) {
    const letters = isRaw || formulas.length === 0 ? content : [...content];
    const parts = [];
    let written = 0;
    for (const [start, end, tree] of isRaw ? [] : formulas) {
      parts.push(letters.slice(written, start).join(""), formula(tree));
      written = end;
    }
    parts.push(written === 0 ? content : letters.slice(written).join(""));
    return make("div", { class: "text", dir: "auto" }, ...parts);
  }

  function answer(content, body, { isRaw }) {
    if (content === null) return make("span", { class: "answer none" }, "no answer");
    const isSet = !isRaw && Object.hasOwn(body.answers, content);
    return make("span", { class: "answer", dir: "auto" }, isSet ? formula(body.answers[content]) : content);
  }

  function said(body, place, view) {
    const [, thinking, , conclusion] = body.said[place];
    const words = text(conclusion, body.formulas[place], view);
    if (thinking === "") return [words];
    const isEnded = thinking.endsWith(THINKING_ENDS);
    const inner = thinking.replace(/^<think>\s*/, "").replace(/\s*<\/think>$/, "");
    const folded = make(
      "details", { class: "thinking", open: view.isUnfolded },
      make("summary", {}, `Thinking${isEnded ? "" : ", never ended"} (${counted(inner.length, "character")})`),
      make("div", { class: "text", dir: "auto" }, inner),
    );
    return conclusion === "" ? [folded] : [folded, words];
  }

  // The prompt is put together only when somebody wants to see it.
  function prompt(body, turn, { hasPrompts }) {
    const words = turn.promptTokens ? `Exact prompt (${counted(turn.promptTokens, "token")})` : "Exact prompt";
    const details = make("details", { class: "prompt", open: hasPrompts }, make("summary", {}, words));
    const fill = () => {
      if (!details.open || details.querySelector("pre") !== null) return;
      const exact = Archive.prompt(body, turn.prompt);
      details.append(
        copyButton("Copy prompt", () => exact),
        make("pre", { tabindex: "0", "aria-label": "Exact prompt" }, exact),
      );
    };
    details.addEventListener("toggle", fill);
    if (hasPrompts) fill();
    return details;
  }

  function facts(turn) {
    return [
      counted(turn.tokens, "token"),
      turn.stop === "length" && make("strong", { class: "cut" }, "cut off at the limit"),
      turn.stop === "failed" && make("strong", { class: "cut" }, "not given by the server"),
      turn.stop === "cancelled" && make("strong", { class: "cut" }, "cancelled"),
      turn.shortened > 0 &&
        `saw ${counted(turn.shortened, "response")} shortened by ${counted(turn.leftOut, "character")}`,
    ].filter(Boolean).flatMap((fact, place) => (place ? [" · ", fact] : [fact]));
  }

  function card(body, turn, place, view) {
    return make(
      "article", { class: `card ${turn.right ? "right" : "wrong"}` },
      make("header", {},
        make("h5", { dir: "auto" }, turn.agent),
        make("p", { class: "given" }, answer(turn.answer, body, view), " ", verdict(turn.right)),
        make("p", { class: "facts" }, ...facts(turn))),
      ...said(body, place, view),
      prompt(body, turn, view),
    );
  }

  // Pages opened from disk may not use the clipboard; then a selection is copied, as people do it.
  function copyButton(label, content) {
    const copy = button(label, async () => {
      let isCopied = true;
      try {
        await navigator.clipboard.writeText(content());
      } catch {
        isCopied = copySelected(content());
      }
      copy.textContent = isCopied ? "Copied" : "Could not copy";
      setTimeout(() => { copy.textContent = label; }, 1500);
    }, { class: "copy" });
    return copy;
  }

  function copySelected(content) {
    const field = make("textarea", { class: "spoken" });
    field.value = content;
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    before?.focus({ preventScroll: true });
    return isCopied;
  }

  return { card, said, answer, copyButton };
})();
