// What one agent said, as a card: its answer, its text with mathematics set and thinking folded, its exact prompt.
const Cards = (() => {
  const { make, button, counted, joined, verdict } = Elements;
  const THINKING_ENDS = "<" + "/think>";
  const STOPS = { length: "cut off at the limit", failed: "not given by the server", cancelled: "cancelled" };

  // A formula as packing made it, [name, {attributes}, child, …]: elements by name, texts as text.
  function formula([name, ...rest]) {
    if (!/^(m[a-z]+|none)$/.test(name)) throw new Error(`${name} is not an element of a formula`);
    const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
    const hasAttributes = typeof rest[0] === "object" && !Array.isArray(rest[0]);
    for (const [key, value] of hasAttributes ? Object.entries(rest.shift()) : []) element.setAttribute(key, value);
    element.append(...rest.map((child) => (typeof child === "string" ? child : formula(child))));
    return element;
  }

  // Text with its mathematics set, or raw. Positions count characters, not halves of surrogate pairs.
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

  // The prompt is joined only when it is opened.
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
      Object.hasOwn(STOPS, turn.stop) && make("strong", { class: "cut" }, STOPS[turn.stop]),
      turn.shortened > 0 &&
        `saw ${counted(turn.shortened, "response")} shortened by ${counted(turn.leftOut, "character")}`,
    ].filter(Boolean);
  }

  function card(body, turn, place, view) {
    return make(
      "article", { class: `card ${turn.right ? "right" : "wrong"}` },
      make("header", {},
        make("h5", { dir: "auto" }, turn.agent),
        make("p", { class: "given" }, answer(turn.answer, body, view), " ", verdict(turn.right)),
        make("p", { class: "facts" }, ...joined(facts(turn)))),
      ...said(body, place, view),
      prompt(body, turn, view),
    );
  }

  function copyButton(label, content) {
    const copy = button(label, async () => {
      const copied = Promise.resolve(content()).then((text) => navigator.clipboard.writeText(text));
      copy.textContent = await copied.then(() => "Copied", () => "Could not copy");
      setTimeout(() => { copy.textContent = label; }, 1500);
    }, { class: "copy" });
    return copy;
  }

  return { card, said, answer, copyButton };
})();

// One debate: the question, the verdict, and rounds side by side.
const DebateView = (() => {
  const { make, button, counted, joined, number, verdict, seen, spoken } = Elements;
  const ROLES = { generator: "generators", critic: "critics" };

  function create(archive, { back, step, open, linkTo }) {
    const view = { isRaw: false, isUnfolded: false, hasPrompts: false };
    const switching = (name, label, key) =>
      button(label, () => toggle(name), { "aria-pressed": "false", "aria-keyshortcuts": key, title: `Key: ${key}` });
    const toggles = {
      isRaw: switching("isRaw", "Raw text", "m"),
      isUnfolded: switching("isUnfolded", "Unfold thinking", "t"),
      hasPrompts: switching("hasPrompts", "Prompts", "p"),
    };
    const place = make("span", { class: "place", role: "status" });
    const previous = button("‹ Previous", () => step(-1), { "aria-keyshortcuts": "k", title: "Key: k" });
    const next = button("Next ›", () => step(1), { "aria-keyshortcuts": "j", title: "Key: j" });
    const content = make("div", { class: "debate-content" });
    const tools = make(
      "div", { class: "debate-tools", role: "toolbar", "aria-label": "Debate" },
      button("← All debates", back, { "aria-keyshortcuts": "Escape", title: "Key: Esc" }),
      previous, next, place, make("span", { class: "gap" }),
      ...Object.values(toggles), Cards.copyButton("Copy link", () => linkTo(shown)),
    );
    const element = make("div", { class: "debate", hidden: true }, tools, content);
    let shown = null;
    let body = null;

    // Open a debate that is at this position of the list, or outside it (-1).
    async function show(wanted, { position, total, takesFocus }) {
      const hadFocus = content.contains(document.activeElement);
      shown = wanted;
      previous.disabled = position <= 0;
      next.disabled = position === -1 || position === total - 1;
      place.textContent = position === -1 ? "outside the filters" : `${number(position + 1)} of ${number(total)}`;
      try {
        const opened = await archive.body(wanted);
        if (shown !== wanted) return;
        body = opened;
        draw();
      } catch (error) {
        if (shown !== wanted) return;
        body = null;
        content.replaceChildren(make("p", { class: "problem", role: "alert" }, String(error.message)));
      }
      if (takesFocus || hadFocus) focus();
    }

    function focus() {
      content.querySelector("h3")?.focus({ preventScroll: true });
    }

    function draw() {
      const one = archive.describe(shown);
      let spokenSoFar = 0;
      const rounds = body.rounds.map(({ role, turns }, order) =>
        make("section", { class: "round" },
          make("h4", {}, `Round ${order + 1}: ${ROLES[role] ?? role}`),
          make("div", { class: "cards" },
            ...turns.map((turn) => Cards.card(body, turn, (spokenSoFar += 1), view)))),
      );
      content.replaceChildren(
        heading(one),
        make("div", { class: "question" }, ...Cards.said(body, 0, view)),
        outcome(one),
        ...related(one),
        make("div", { class: "rounds" }, ...rounds),
      );
      toggles.isUnfolded.hidden = content.querySelector("details.thinking") === null;
    }

    function heading(one) {
      const several = archive.index.runs.length > 1;
      const parts = [...(several ? [one.run] : []), one.title, one.benchmark, `seed ${one.seed}`];
      return make(
        "h3", { id: "debate-title", tabindex: "-1" }, List.mark(one.outcome), " ",
        make("bdi", { class: "problem-name" }, one.problem), " ",
        make("small", {}, ...joined(parts.map((part) => make("bdi", {}, part)))),
      );
    }

    function outcome(one) {
      const { answer, right, votes, tie, unanswered } = body.verdict;
      const shown = (given) => Cards.answer(given, body, view);
      const votesFor = (count) => make("span", { class: "facts" }, ` ${counted(count, "vote")}`);
      const others = votes.slice(1).map(([given, count]) => make("li", {}, shown(given), votesFor(count)));
      const became = [one.outcome, tie && "tie in the vote", unanswered > 0 && `${unanswered} without an answer`];
      const fact = (name, ...parts) => make("div", {}, make("dt", {}, name), make("dd", {}, ...parts));
      return make(
        "dl", { class: "outcome" },
        fact("Right answer", shown(body.reference)),
        fact("Verdict", shown(answer), " ", verdict(right), votes.length > 0 && votesFor(votes[0][1])),
        others.length > 0 && fact("Others", make("ul", {}, ...others)),
        fact("Outcome", became.filter(Boolean).join(", ")),
      );
    }

    // The same question put to others, and to the same system with other seeds.
    function related(one) {
      const { columns, index } = archive;
      const others = [...columns.problem.keys()].filter(
        (other) => columns.problem[other] === columns.problem[shown] && other !== shown,
      );
      const isSameSystem = (other) =>
        columns.system[other] === columns.system[shown] && columns.run[other] === columns.run[shown];
      const bySystem = others.filter((other) => columns.seed[other] === one.seed && !isSameSystem(other));
      const bySeed = others.filter(isSameSystem);
      const name = (other) => (index.runs.length > 1 ? `${other.run}: ${other.title}` : other.title);
      const links = (title, numbers, label) =>
        numbers.length > 0 &&
        make("p", { class: "related" }, `${title} `, ...joined(numbers.map((other) => {
          const described = archive.describe(other);
          const [sign, word] = List.isRight(described.outcome) ? ["✓", "right"] : ["✗", "wrong"];
          const onclick = (event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            open(other);
          };
          return make(
            "a", { href: Links.hashOf(archive, other), onclick },
            make("bdi", {}, label(described)), " ", seen(sign, { class: word }), spoken(word),
          );
        }), ", "));
      return [
        links("Same question, same seed:", bySystem, name),
        links("Other seeds:", bySeed, (other) => String(other.seed)),
      ].filter(Boolean);
    }

    function toggle(name) {
      view[name] = !view[name];
      toggles[name].setAttribute("aria-pressed", String(view[name]));
      if (body === null) return;
      if (name === "isRaw") draw();
      const selector = { isUnfolded: "details.thinking", hasPrompts: "details.prompt" }[name];
      if (selector) for (const details of content.querySelectorAll(selector)) details.open = view[name];
    }

    return { element, show, toggle, focus, get shown() { return shown; } };
  }

  return { create };
})();
