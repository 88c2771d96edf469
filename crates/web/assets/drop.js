// Imports files without leaving the page: the chosen files stay in the form while the daemon's answer is
// merged into it. Files that are dropped on the page are put into the form. Without this they are chosen.

import { unreadable } from "./files.js";
import { morph } from "./morph.js";

// Whoever may not import has no form.
const form = document.getElementById("import") ?? document.createElement("form");
const field = document.getElementById("file");
const main = document.getElementById("main");
const say = (text) => (document.getElementById("drop-says").textContent = text);

async function send(submitter) {
  say("Importing …");
  const reply = await fetch(form.action, { method: "POST", body: new FormData(form, submitter) });
  if (reply.redirected) return location.assign(reply.url);
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  const page = fresh.getElementById("main");
  if (!page) return say(`Not imported: the daemon answers with status ${reply.status}.`);
  document.title = fresh.title;
  morph(main, page);
  (document.querySelector("#refused, #known, #conversations input") ?? main).scrollIntoView({ block: "center" });
  document.querySelector("#conversations input")?.focus();
}

let sending = false;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (sending) return;
  sending = true;
  try {
    await send(event.submitter);
  } catch {
    const why = (await unreadable(field.files)) ?? "the connection ended. The daemon may be gone, or the files are too large for it.";
    say(`Not imported: ${why}`);
  }
  sending = false;
});

// The list of another file selects nothing.
field?.addEventListener("change", () => document.getElementById("conversations")?.remove());

for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    if (!field || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.toggle("over", name === "dragover");
    if (name !== "drop" || event.dataTransfer.files.length === 0) return;
    field.files = event.dataTransfer.files;
    document.getElementById("conversations")?.remove();
    say(`Chosen: ${[...field.files].map((file) => file.name).join(", ")}.`);
    form.requestSubmit();
  });
}
