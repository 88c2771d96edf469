// A task is kept in this tab until the daemon has taken it, and the form says that it was not sent. Files
// are not kept. The form names the lead that is chosen.

const SKIPPED = new Set(["branch", "key", "file", "stored"]);
const composer = () => document.querySelector("#composer form");
const placeOf = (form) => `unsent:${new URL(form.action).pathname}:${form.elements.branch.value}`;

export function say(text) {
  const shown = document.getElementById("unsent");
  if (shown) shown.textContent = text;
}

// With the key of a task that was sent: its answer may only have been lost. A task with files has another key
// after a reload, because it is another one without them.
export function keep(form) {
  const all = new FormData(form);
  const written = [...all].filter(([name]) => !SKIPPED.has(name));
  const hasFiles = all.has("stored") || form.elements.file.files.length > 0;
  if (form.elements.key.value && !hasFiles) written.push(["key", form.elements.key.value]);
  sessionStorage.removeItem(placeOf(form));
  if (form.elements.task.value.trim() === "") return;
  try {
    sessionStorage.setItem(placeOf(form), JSON.stringify(written));
  } catch {
    // It is too large for the browser to keep, and can be sent all the same.
  }
}

export function forget(form) {
  sessionStorage.removeItem(placeOf(form));
  say("");
}

function nameLead(form) {
  const field = form.elements.lead;
  for (const shown of form.querySelectorAll("[data-lead]")) shown.textContent = field.value || shown.dataset.lead;
}

// Puts what was kept into the form, unless the daemon has rendered a task in it, or another task is there. The
// browser may have put the text there itself, without the key.
function restore() {
  const form = composer();
  const kept = form && sessionStorage.getItem(placeOf(form));
  if (!kept) return;
  const written = JSON.parse(kept);
  const [, task] = written.find(([name]) => name === "task");
  const field = form.elements.task;
  if (field.defaultValue !== "" || !["", task].includes(field.value)) return;
  for (const field of form.elements) {
    if (!field.name || SKIPPED.has(field.name)) continue;
    if (field.type === "checkbox") {
      field.checked = written.some(([name, value]) => name === field.name && value === field.value);
      continue;
    }
    // Several fields can have one name.
    const at = written.findIndex(([name]) => name === field.name);
    if (at >= 0) [[, field.value]] = written.splice(at, 1);
  }
  nameLead(form);
  const key = written.find(([name]) => name === "key")?.[1];
  form.elements.key.value = key ?? "";
  say(key ? "Perhaps not sent. Sent again, it is done once." : "Not sent yet.");
}

for (const event of ["input", "change"]) {
  document.addEventListener(event, ({ target }) => {
    const form = target.form;
    if (!form?.closest("#composer")) return;
    // Another text is another task.
    form.elements.key.value = "";
    keep(form);
    if (target.name === "lead") nameLead(form);
  });
}
document.addEventListener("reset", ({ target }) => {
  if (target.closest("#composer")) setTimeout(() => nameLead(target));
});
restore();
