// The form above the list: words to search for, a choice in every dimension, and counts beside each option.
const Controls = (() => {
  const { make, button, number } = Elements;

  function create(filters, { change, type, clear }) {
    const words = make("input", { type: "search", id: "debate-search", autocomplete: "off", spellcheck: "false" });
    const everything = make("input", { type: "checkbox", id: "debate-search-said" });
    words.addEventListener("input", type);
    everything.addEventListener("change", type);
    const parts = filters.dimensions.map((dimension) => (dimension.isRow ? buttons(dimension) : menu(dimension)));
    const clearing = button("Clear", clear, { class: "clear" });
    const search = make(
      "div", { class: "search" },
      make("label", { for: "debate-search" }, "Search"), words,
      make("label", { class: "check", for: "debate-search-said" }, everything, "in everything said"),
    );
    const element = make(
      "form",
      { class: "filters", "aria-label": "Filters", role: "search", onsubmit: (event) => event.preventDefault() },
      search,
      make("div", { class: "choices" }, ...parts.filter((part) => !part.isRow).map((part) => part.element)),
      make("div", { class: "choices" }, ...parts.filter((part) => part.isRow).map((part) => part.element)),
    );

    function menu({ name, label, options, needs }) {
      const shown = options.map((option, place) => make("option", { value: place }, option.label));
      const all = make("option", { value: "" }, "any");
      const select = make("select", { id: `filter-${name}` }, all, ...shown);
      select.addEventListener("change", () => change(name, select.value === "" ? null : Number(select.value)));
      const part = make("div", { class: "choice" }, make("label", { for: select.id }, label), select);
      const update = (counts) => {
        part.hidden = needs !== undefined && filters.chosen[needs] === null;
        shown.forEach((option, place) => {
          option.textContent = `${options[place].label} (${number(counts[place])})`;
          option.disabled = counts[place] === 0 && filters.chosen[name] !== place;
        });
        select.value = filters.chosen[name] ?? "";
        select.classList.toggle("chosen", filters.chosen[name] !== null);
      };
      return { element: part, update, name };
    }

    function buttons({ name, label, options }) {
      const shown = options.map((option, place) => {
        const count = make("span", { class: "count" });
        const choice = button(option.label, () => change(name, filters.chosen[name] === place ? null : place));
        choice.append(" ", count);
        return { choice, count };
      });
      const part = make(
        "div", { class: "choice buttons", role: "group", "aria-label": label, id: `filter-${name}` },
        make("span", { class: "label", "aria-hidden": "true" }, label),
        ...shown.map(({ choice }) => choice),
      );
      const update = (counts) => shown.forEach(({ choice, count }, place) => {
        count.textContent = number(counts[place]);
        choice.setAttribute("aria-pressed", String(filters.chosen[name] === place));
        choice.disabled = counts[place] === 0 && filters.chosen[name] !== place;
      });
      return { element: part, update, name, isRow: true };
    }

    function update(counts, { isFiltered }) {
      for (const part of parts) part.update(counts[part.name]);
      clearing.disabled = !isFiltered;
    }

    return { element, words, everything, clearing, update };
  }

  return { create };
})();
