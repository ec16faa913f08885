// Keys for people who read many debates. They rest while somebody types, and can be switched off in the help.
const Keyboard = (() => {
  const { make, button } = Elements;
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
      make("dt", {}, ...key.split(", ").flatMap((one, place) => [place ? ", " : "", make("kbd", {}, one)])),
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

    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || dialog.open) return;
      if (isTyping(event.target)) return;
      const isArrow = event.key.startsWith("Arrow");
      if (["t", "m", "p"].includes(event.key) && !debates.isOpen()) return;
      if (isArrow && (!debates.isOpen() || event.target.closest("pre, .scroll"))) return;
      if (event.key === "Escape" && !debates.isOpen()) return;
      const action = (isOn && letters[event.key]) || always[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
  }

  function isTyping(target) {
    return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
  }

  return { start };
})();
