// The shell: which view the address asks for, links between views, light and dark.
import { getJson } from "./api.js";
import { button, make, problem } from "./dom.js";

const main = document.getElementById("content");
let leaving = new AbortController();
let information = null;

// Go to an address of this page without loading it again.
function go(path) {
  if (path !== location.pathname) history.pushState(null, "", path);
  route({ takesFocus: true });
}

// Every view gets an element of its own and { info, signal, go }; the signal is aborted when the view is left.
async function route({ takesFocus }) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const view = make("div", { class: "view" });
  try {
    information ??= await getJson("/api/info");
    const info = information;
    const [kind, name = null] = location.pathname.split("/").slice(1).map(decodeURIComponent);
    const isWatch = kind === "watch" || (kind === "" && !info.can_ask);
    navigation(info, isWatch ? "/watch" : "/");
    document.title = isWatch ? "mada: runs" : "mada";
    const { show } = await (isWatch ? import("./watch.js") : import("./ask.js"));
    if (signal.aborted) return;
    main.replaceChildren(view);
    await show(view, name, { info, signal, go });
  } catch (error) {
    if (signal.aborted) return;
    main.replaceChildren(problem(error, button("Try again", () => route({ takesFocus: true }))));
  }
  if (takesFocus && !main.contains(document.activeElement)) (main.querySelector("h2[tabindex]") ?? main).focus();
}

function navigation(info, current) {
  const views = [info.can_ask && ["/", "Ask"], info.can_watch && ["/watch", "Watch"]].filter(Boolean);
  const links = views.map(([path, label]) =>
    make("li", {}, make("a", { href: path, "aria-current": path === current ? "page" : null }, label)));
  document.getElementById("views").replaceChildren(...links);
}

// Links between views load nothing again; the skip link is no step of the history.
function follow(event) {
  const link = event.target.closest("a");
  const path = link?.getAttribute("href") ?? "";
  const isSkip = path === "#content";
  if (!isSkip && !/^\/($|debate\/|watch)/.test(path)) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (isSkip) main.focus();
  else go(path);
}

// The system's setting until the user chooses; the report's page remembers it under the same name.
function theme(toggle) {
  const STORED = "mada-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
  const chosen = localStorage.getItem(STORED);
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem(STORED, root.dataset.theme);
    label();
  });
  system.addEventListener("change", label);
  toggle.hidden = false;
  label();
}

theme(document.getElementById("theme-button"));
document.addEventListener("click", follow);
window.addEventListener("popstate", () => route({ takesFocus: true }));
route({ takesFocus: false });
