// Live updates. The page works without this: what it shows is rendered by the daemon.

// A page is brought up to date at most this often, in milliseconds.
const PAUSE = 250;

const link = document.getElementById("link");
const said = document.getElementById("said");
const live = () => document.getElementById("live");

// What was streamed of runs that have not ended, by run: not in the page the daemon renders.
const streamed = new Map();

// Without what steers or reorders what is shown: as the daemon renders a text.
const harmless = (text) =>
  text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

const keyOf = (details) => {
  const run = details.querySelector(":scope > [data-run]");
  if (run) return run.dataset.run;
  const id = details.closest("[id]")?.id ?? "";
  return `${id} ${details.querySelector("summary")?.textContent.trim()}`;
};

// What a person has open or is writing stays as it is when the page is brought up to date.
function remember(root) {
  const open = new Map();
  for (const details of root.querySelectorAll("details")) open.set(keyOf(details), details.open);
  const fields = new Map();
  for (const field of root.querySelectorAll("textarea[id], input[id]")) {
    if (field.value !== field.defaultValue) fields.set(field.id, field.value);
  }
  for (const field of root.querySelectorAll("select[id]")) {
    const first = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
    if (field.value !== first?.value) fields.set(field.id, field.value);
  }
  const focus = root.contains(document.activeElement) ? document.activeElement : null;
  return { open, fields, focus: focus?.id, start: focus?.selectionStart, end: focus?.selectionEnd };
}

function restore(root, kept) {
  for (const details of root.querySelectorAll("details")) {
    const open = kept.open.get(keyOf(details));
    if (open !== undefined) details.open = open;
  }
  for (const [id, value] of kept.fields) {
    const field = root.querySelector(`#${CSS.escape(id)}`);
    if (field) field.value = value;
  }
  for (const [run, text] of streamed) {
    const shown = root.querySelector(`[data-run="${CSS.escape(run)}"]`);
    if (shown && shown.textContent === "") shown.textContent = text;
  }
  if (!kept.focus) return;
  const field = root.querySelector(`#${CSS.escape(kept.focus)}`);
  field?.focus({ preventScroll: true });
  if (field?.setSelectionRange && kept.start != null) {
    try {
      field.setSelectionRange(kept.start, kept.end);
    } catch {
      // Some kinds of fields have no selection.
    }
  }
}

// What to do where the daemon answers, but not with the page.
function refused(reply) {
  if (reply.ok) return "";
  return reply.status === 401 ? "signed out: come in by a new link" : "the daemon refused: trying again";
}

// What is of all sessions has no stream of its own: it is looked at again every so many seconds.
const every = Number(live()?.dataset.every);

let refreshing = false;
let again = false;

async function refresh() {
  again = true;
  if (refreshing) return;
  refreshing = true;
  while (again) {
    again = false;
    try {
      const reply = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (every) link.textContent = refused(reply);
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = page.getElementById("live");
      const old = live();
      if (reply.ok && fresh && old) {
        const kept = remember(old);
        old.replaceWith(fresh);
        restore(fresh, kept);
      }
    } catch {
      // The daemon is not there: the stream of events says so, and when it is back.
      if (every) link.textContent = "disconnected: trying again";
    }
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  refreshing = false;
}

function follow(root) {
  const { session, after } = root.dataset;
  const source = new EventSource(`/v1/sessions/${session}/events?after=${after}`);
  let lost = false;
  source.onopen = () => {
    link.textContent = "";
    if (lost) refresh();
    lost = false;
  };
  source.onerror = () => {
    lost = true;
    const ended = source.readyState === EventSource.CLOSED;
    link.textContent = ended ? "disconnected: reload the page" : "disconnected: trying again";
  };
  source.addEventListener("text_delta", (event) => {
    const { run, text } = JSON.parse(event.data);
    streamed.set(run, (streamed.get(run) ?? "") + harmless(text));
    const shown = document.querySelector(`[data-run="${CSS.escape(run)}"]`);
    if (shown) shown.textContent = streamed.get(run);
  });
  source.addEventListener("progress", (event) => {
    const { turn, text } = JSON.parse(event.data);
    const shown = turn && document.querySelector(`[data-progress="${CSS.escape(turn)}"]`);
    if (shown) shown.textContent = harmless(text);
  });
  const changes = [
    "turn_accepted", "turn_started", "altered", "compacted", "compaction_failed", "restored",
    "frozen", "run_opened", "run_stepped", "delegated", "run_retried", "run_ended", "turn_ended",
    "branch_set", "posted", "pinned", "unpinned", "topic_sealed", "settings_set",
    "tools_called", "tool_started", "tool_ended", "tool_in_doubt", "tool_decided",
  ];
  for (const name of changes) {
    source.addEventListener(name, (event) => {
      const { run } = JSON.parse(event.data);
      // A reply is over, or another attempt begins: what comes is another text.
      if (run && name !== "run_opened") streamed.delete(run);
      if (name === "turn_ended") said.textContent = "A turn has ended.";
      refresh();
    });
  }
}

if (live()?.dataset.session) follow(live());
if (every) setInterval(refresh, every * 1000);
// How long runs have gone on.
setInterval(() => {
  for (const shown of document.querySelectorAll("[data-since]")) {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(shown.dataset.since)) / 1000));
    shown.textContent = `${seconds} s`;
  }
}, 1000);
