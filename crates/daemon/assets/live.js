// Live updates. The page works without this: what it shows is rendered by the daemon.

const link = document.getElementById("link");
const live = () => document.getElementById("live");

// What a person has open or is writing stays as it is when the page is brought up to date.
function remember(root) {
  const open = [...root.querySelectorAll("details")].map((details) => details.open);
  const fields = new Map();
  for (const field of root.querySelectorAll("textarea[id], input[id]")) {
    fields.set(field.id, field.value);
  }
  return { open, fields, focus: document.activeElement?.id };
}

function restore(root, kept) {
  const details = [...root.querySelectorAll("details")];
  if (details.length === kept.open.length) {
    details.forEach((one, index) => (one.open = kept.open[index]));
  }
  for (const [id, value] of kept.fields) {
    const field = root.querySelector(`#${CSS.escape(id)}`);
    if (field) field.value = value;
  }
  if (kept.focus) root.querySelector(`#${CSS.escape(kept.focus)}`)?.focus({ preventScroll: true });
}

let refreshing = false;
let again = false;

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  do {
    again = false;
    const reply = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!reply.ok) break;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.getElementById("live");
    const old = live();
    if (!fresh || !old) break;
    const kept = remember(old);
    old.replaceWith(fresh);
    restore(fresh, kept);
  } while (again);
  refreshing = false;
}

function follow(root) {
  const source = new EventSource(`/v1/sessions/${root.dataset.session}/events?after=${root.dataset.after}`);
  source.onopen = () => (link.hidden = true);
  source.onerror = () => (link.hidden = false);
  source.addEventListener("piece", (event) => {
    const { run, text } = JSON.parse(event.data);
    const shown = document.querySelector(`[data-run="${CSS.escape(run)}"]`);
    if (!shown) return;
    shown.textContent += text;
    shown.closest("details").open = true;
  });
  const changes = [
    "turn_accepted", "turn_started", "altered", "compacted", "compaction_failed", "frozen",
    "run_opened", "delegated", "run_retried", "run_ended", "turn_ended", "branch_set",
  ];
  for (const name of changes) source.addEventListener(name, refresh);
}

if (live()) follow(live());
