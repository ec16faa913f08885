// The server's API: JSON and streams of events, with the key where the server wants one.
import { button, make } from "./dom.js";

const KEY = "mada-key";

export class ApiError extends Error {
  constructor(message, { status = null, retryAfter = null } = {}) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter; // seconds, or null
  }
}

// await getJson("/api/info", { signal })
export async function getJson(path, { signal } = {}) {
  return (await request(path, { signal })).json();
}

// for await (const chunk of stream("/v1/chat/completions", { body, signal })) …: what each `data:` says, to the end.
export async function* stream(path, { body, signal } = {}) {
  const posted = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await request(path, { ...(body === undefined ? {} : posted), signal });
  for await (const data of messages(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message);
    yield chunk;
  }
  throw new ApiError("The server ended the connection before it was done.");
}

// The data of server-sent events; everything else of them is left out. Leaving the loop ends the request.
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => Promise.reject(lost(error)));
      if (done) return;
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        if (line !== "" || data.length === 0) continue;
        yield data.join("\n");
        data = [];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function request(path, options) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await fetch(path, { ...options, headers }).catch((error) => Promise.reject(lost(error)));
    if (response.ok) return response;
    if (response.status !== 401) throw await refusal(response);
    // Another request may have asked for the key meanwhile.
    if (key === sessionStorage.getItem(KEY)) await askForKey(key !== null);
  }
}

// Who stopped a request knows that; everybody else wants to know what happened to it.
const lost = (error) =>
  error.name === "AbortError" ? error : new ApiError("The server cannot be reached, or the connection to it was lost.");

async function refusal(response) {
  const said = await response.json().catch(() => null);
  const message = said?.error?.message ?? `The server answered ${response.status} ${response.statusText}.`;
  const wait = Number.parseFloat(response.headers.get("Retry-After") ?? "");
  return new ApiError(message, { status: response.status, retryAfter: Number.isFinite(wait) ? wait : null });
}

let asking = null;

// Ask once, however many requests wait for the key; it lasts as long as the tab.
function askForKey(wasRefused) {
  asking ??= new Promise((resolve, reject) => {
    const field = make("input", { type: "password", id: "key", autocomplete: "off", required: true, autofocus: true });
    const give = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, field.value.trim());
      resolve();
      dialog.close();
    };
    const dialog = make(
      "dialog", { class: "key", "aria-labelledby": "key-title", onclose: () => {
        dialog.remove();
        asking = null;
        reject(new ApiError("This server needs a key.", { status: 401 }));
      } },
      make("form", { onsubmit: give },
        make("h2", { id: "key-title" }, "This server needs a key"),
        wasRefused && make("p", { role: "alert", class: "wrong" }, "It did not accept the last one."),
        make("label", { for: "key" }, "Key"), field,
        make("p", { class: "note" }, "Kept in this tab until it is closed."),
        make("div", { class: "buttons" },
          make("button", { type: "submit", class: "main" }, "Continue"), button("Cancel", () => dialog.close()))),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
