// The debate browser: filters, list and one debate, synchronised with each other and with the page's address.
const Debates = (() => {
  const { make, number } = Elements;

  function legend() {
    const circle = (name) => make("i", { class: `dot ${name}`, "aria-hidden": "true" });
    return make(
      "p", { class: "note legend" }, "Marks: first vote, then verdict. Circles: round by round, ",
      circle("right"), " right, ", circle("wrong"), " wrong.",
    );
  }

  function start(section) {
    const archive = Archive.open();
    const filters = Filters.create(archive);
    const search = Search.create(archive);
    const controls = Controls.create(filters, { change, type, clear });
    const list = List.create(archive, { open });
    const view = DebateView.create(archive, { back, step, open, linkTo: (wanted) => linkTo(wanted) });
    const count = make("p", { class: "count", role: "status", "aria-live": "polite" });
    const nothing = make("p", { class: "nothing", hidden: true }, "No debate passes these filters.");
    const browser = make(
      "div", { class: "browser" }, controls.element,
      make("div", { class: "counted" }, count, controls.clearing), list.element, nothing, legend(),
    );
    let passesText = () => true;
    let progress = "";
    let current = null;

    // --- what is shown ---

    function refresh() {
      const { numbers, counts } = filters.apply(passesText);
      controls.update(counts, { isFiltered: Object.keys(settings()).length > 0 });
      list.show(numbers, current ?? undefined);
      nothing.hidden = numbers.length > 0;
      count.textContent = `${number(numbers.length)} of ${number(archive.count)} debates${progress}`;
    }

    function settings() {
      const words = controls.words.value.trim();
      const said = words && controls.everything.checked;
      return { ...filters.settings(), ...(words ? { text: words } : {}), ...(said ? { said: "1" } : {}) };
    }

    // A step is an entry of the history, which "back" undoes.
    const write = (debate, { isStep = false } = {}) =>
      Links.write({ debate: debate === null ? null : Links.keyOf(archive, debate), settings: settings() }, { isStep });

    function change(name, option) {
      filters.choose(name, option);
      refresh();
      write(null);
    }

    function type() {
      lookFor();
      write(null);
    }

    // Every key press ends the search before it.
    function lookFor() {
      search.cancel();
      const words = controls.words.value;
      progress = "";
      if (words.trim() === "" || !controls.everything.checked) {
        passesText = search.inIndex(words);
        refresh();
        return;
      }
      const report = (found, searched) => {
        passesText = (one) => found.has(one);
        const isDone = searched === archive.count;
        progress = isDone ? "" : `, ${Math.floor((100 * searched) / archive.count)}% searched`;
        refresh();
      };
      report(new Set(), 0);
      search.inEverything(words, report).catch((error) => {
        progress = `; the search ended early: ${error.message}`;
        refresh();
      });
    }

    function clear() {
      restore({});
      write(null);
      controls.words.focus();
    }

    function restore(wanted) {
      const isSameSearch =
        controls.words.value.trim() === (wanted.text ?? "") && controls.everything.checked === (wanted.said === "1");
      filters.restore(wanted);
      controls.words.value = wanted.text ?? "";
      controls.everything.checked = wanted.said === "1";
      if (isSameSearch) refresh();
      else lookFor();
    }

    // --- one debate ---

    function display(wanted, { takesFocus }) {
      const wasOpen = !view.element.hidden;
      current = wanted;
      view.element.hidden = wanted === null;
      browser.hidden = wanted !== null;
      if (wanted === null) {
        list.show(list.numbers, view.shown ?? undefined);
        if (wasOpen && takesFocus) list.focus();
        return;
      }
      const position = list.numbers.indexOf(wanted);
      view.show(wanted, { position, total: list.numbers.length, takesFocus });
      if (takesFocus || view.element.getBoundingClientRect().top < 0) view.element.scrollIntoView({ block: "start" });
    }

    function open(wanted) {
      display(wanted, { takesFocus: true });
      write(wanted, { isStep: true });
    }

    function back() {
      if (current === null) return;
      display(null, { takesFocus: true });
      write(null, { isStep: true });
    }

    // To the debate before or after this one; "back" then still leads to the list.
    function step(by) {
      const position = list.numbers.indexOf(current);
      const wanted = list.numbers[position + by];
      if (position === -1 || wanted === undefined) return;
      display(wanted, { takesFocus: false });
      write(wanted);
    }

    const linkTo = (wanted) => location.href.split("#")[0] + Links.hashOf(archive, wanted);

    // --- the page's address ---

    function follow({ isFirst }) {
      const wanted = Links.read();
      if (wanted === null) {
        if (isFirst) refresh();
        else if (current !== null) display(null, { takesFocus: false });
        return;
      }
      restore(wanted.settings);
      const found = wanted.debate === null ? null : Links.find(archive, wanted.debate);
      if (isFirst && found === null) {
        if (wanted.debate !== null) count.textContent += "; the debate in the address is not in this file";
        if (location.hash !== "") section.scrollIntoView();
        return;
      }
      display(found, { takesFocus: true });
    }

    function focusSearch() {
      if (current !== null) back();
      controls.words.focus();
      controls.words.select();
    }

    function move(by) {
      if (current !== null) {
        step(by);
      } else {
        if (document.activeElement === list.element) list.move(by);
        list.focus();
      }
    }

    section.append(browser, view.element);
    window.addEventListener("hashchange", () => follow({ isFirst: false }));
    follow({ isFirst: true });
    return { move, step, back, focusSearch, toggle: view.toggle, isOpen: () => current !== null };
  }

  return { start };
})();

// Light or dark: the system's setting until the user chooses.
const Theme = (() => {
  const STORED = "mada-theme";

  // Pages opened from disk may not be allowed to store anything.
  function remembered(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  }

  function remember(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      // Then the choice lasts as long as the page.
    }
  }

  function start(button) {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const root = document.documentElement;
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    const chosen = remembered(STORED);
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(STORED, root.dataset.theme);
      label();
    });
    system.addEventListener("change", label);
    button.hidden = false;
    label();
  }

  return { start, remembered, remember };
})();

// Keyboard shortcuts. They are off while the user types, and can be switched off in the help.
const Keyboard = (() => {
  const { make, button, joined } = Elements;
  const KEYS = [
    ["j, k", "next and previous debate; in the list also ↓ and ↑, in a debate → and ←"],
    ["Enter", "open the debate"],
    ["Esc", "back to the list"],
    ["/", "search"],
    ["t", "fold or unfold all thinking"],
    ["m", "mathematics set or as raw text"],
    ["p", "show or hide exact prompts"],
    ["?", "this help"],
  ];
  const STORED = "mada-keys";

  function helpDialog(toggled, isOn) {
    const rows = KEYS.flatMap(([key, meaning]) => [
      make("dt", {}, ...joined(key.split(", ").map((one) => make("kbd", {}, one)), ", ")),
      make("dd", {}, meaning),
    ]);
    const box = make("input", { type: "checkbox", id: "keys-on", onchange: () => toggled(box.checked) });
    box.checked = isOn;
    const dialog = make(
      "dialog", { "aria-labelledby": "help-title" },
      make("h2", { id: "help-title" }, "Keys"),
      make("dl", { class: "keys" }, ...rows),
      make("p", {}, make("label", { class: "check", for: "keys-on" }, box, "react to single letters")),
      button("Close", () => dialog.close(), { autofocus: true }),
    );
    return dialog;
  }

  function start(debates, opener) {
    let isOn = Theme.remembered(STORED) !== "off";
    const dialog = helpDialog((wanted) => {
      isOn = wanted;
      Theme.remember(STORED, wanted ? "on" : "off");
    }, isOn);
    document.body.append(dialog);
    const help = () => dialog.showModal();
    opener.hidden = false;
    opener.addEventListener("click", help);

    const letters = {
      j: () => debates.move(1),
      k: () => debates.move(-1),
      "/": debates.focusSearch,
      t: () => debates.toggle("isUnfolded"),
      m: () => debates.toggle("isRaw"),
      p: () => debates.toggle("hasPrompts"),
      "?": help,
    };
    const always = { Escape: debates.back, ArrowRight: () => debates.step(1), ArrowLeft: () => debates.step(-1) };
    const TYPING = "input:not([type=checkbox]), textarea, select, [contenteditable]";
    const OF_A_DEBATE = ["t", "m", "p", "Escape", "ArrowRight", "ArrowLeft"];

    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || dialog.open) return;
      if (event.target.closest(TYPING) || (OF_A_DEBATE.includes(event.key) && !debates.isOpen())) return;
      if (event.key.startsWith("Arrow") && event.target.closest("pre, .scroll")) return;
      const action = (isOn && letters[event.key]) || always[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
  }

  return { start };
})();

// The theme at once, debates after the first paint; a page in the background paints nothing, so it need not wait.
(() => {
  Theme.start(document.getElementById("theme-button"));
  const start = () => {
    const section = document.getElementById("debates");
    if (section !== null) Keyboard.start(Debates.start(section), document.getElementById("help-button"));
  };
  if (document.hidden) setTimeout(start);
  else requestAnimationFrame(() => setTimeout(start));
})();
