// What one agent said, as a card: its answer, its text with mathematics set and thinking folded, its exact prompt.
const Cards = (() => {
  const { make, button, counted, verdict } = Elements;
  const THINKING_ENDS = "<" + "/think>";

  // Whatever a model wrote, it can be read: as it is, if it cannot be set.
  function rendered(content, source = content) {
    try {
      return Mathematics.render(source);
    } catch (error) {
      console.info("mathematics that could not be set is shown as it is", error);
      return content;
    }
  }

  // Text with its mathematics set, or letter by letter.
  function text(content, { isRaw }) {
    return make("div", { class: "text", dir: "auto" }, isRaw ? content : rendered(content));
  }

  // An answer is mathematics without a sign of its own; only what could look different is set.
  function answer(content, { isRaw }) {
    if (content === null) return make("span", { class: "answer none" }, "no answer");
    const shown = isRaw || !/[\\^_]/.test(content) ? content : rendered(content, `\\(${content}\\)`);
    return make("span", { class: "answer", dir: "auto" }, shown);
  }

  function said(pieces, view) {
    const [, thinking, , conclusion] = pieces;
    if (thinking === "") return [text(conclusion, view)];
    const isEnded = thinking.endsWith(THINKING_ENDS);
    const inner = thinking.replace(/^<think>\s*/, "").replace(/\s*<\/think>$/, "");
    const folded = make(
      "details", { class: "thinking", open: view.isUnfolded },
      make("summary", {}, `Thinking${isEnded ? "" : ", never ended"} (${counted(inner.length, "character")})`),
      text(inner, view),
    );
    return conclusion === "" ? [folded] : [folded, text(conclusion, view)];
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
      turn.stop === "cancelled" && make("strong", { class: "cut" }, "cancelled"),
      turn.shortened > 0 &&
        `saw ${counted(turn.shortened, "response")} shortened by ${counted(turn.leftOut, "character")}`,
    ].filter(Boolean).flatMap((fact, place) => (place ? [" · ", fact] : [fact]));
  }

  function card(body, turn, pieces, view) {
    return make(
      "article", { class: `card ${turn.right ? "right" : "wrong"}` },
      make("header", {},
        make("h5", { dir: "auto" }, turn.agent),
        make("p", { class: "given" }, answer(turn.answer, view), " ", verdict(turn.right)),
        make("p", { class: "facts" }, ...facts(turn))),
      ...said(pieces, view),
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

  return { card, text, answer, copyButton };
})();
