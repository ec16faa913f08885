// Light or dark: as the system has it until somebody chooses, and then as they chose.
const Theme = (() => {
  const STORED = "mada-theme";

  // Pages opened from disk may not be allowed to remember anything.
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
      // Then it is forgotten with the page.
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
