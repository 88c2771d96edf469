// Live updates. The page works without this: what it shows is rendered by the daemon.

import { asksTheSame, holdBack, staysAnswered, waitingCalls, whenReleased } from "./calls.js";
import { unreadable } from "./files.js";
import { harmless } from "./harmless.js";
import { morph, openFor } from "./morph.js";
import { forget, keep, say as sayUnsent } from "./unsent.js";

// Events that come together are one update: the first waits so long for the others, in milliseconds.
const GATHER = 60;
// A page is brought up to date at most this often.
const PAUSE = 400;
// How long until a stream that was refused is opened again, at first and at most, in milliseconds.
const RETRY = 1_000;
const RETRY_MOST = 30_000;
// How often the calls that wait are counted, on a page that is not brought up to date as a whole.
const COUNT = 10_000;
// Over HTTP/1.1 a browser has six connections to a daemon, for all its windows together. So many of them are
// streams; a further window looks at its page again so often, in milliseconds, until a stream ends.
const STREAMS = 4;
const LOOK = 5_000;
const BEHIND = "this page was behind, and was refreshed";

const link = document.getElementById("link");
const said = document.getElementById("said");
const live = () => document.getElementById("live");

// A page says one thing at a time about its daemon. That the page itself is an old one is said last.
let isOld = false;
const say = (text) => {
  if (!isOld) link.textContent = text;
};

// What was streamed of runs that have not ended, by run: not in the page the daemon renders. `shown` is how
// much of the text is on the page. `isStale`: it came by an earlier connection, or before some was missed.
const streamed = new Map();

const shownOf = (run) => document.querySelectorAll(`[data-run="${CSS.escape(run)}"]`);

// A reply that went on while this page was not told comes as a whole first: other text begins a new one.
function receive(run, text) {
  const one = streamed.get(run);
  if (one && !one.isStale) append(one, text);
  else replace(run, text);
}

function append(one, text) {
  one.text += text;
  pour();
}

// As much of the whole text is shown at once as was shown of the one before.
function replace(run, text) {
  let shown = Math.min(streamed.get(run)?.shown ?? 0, text.length);
  // Not in the middle of a character.
  if ((text.charCodeAt(shown) & 0xfc00) === 0xdc00) shown += 1;
  streamed.set(run, { text, shown });
  for (const place of shownOf(run)) place.textContent = text.slice(0, shown);
  pour();
}

// Text that comes in a burst, or before its place is on the page, is shown a few lines a frame, or a part
// of it where it is long: a text that grows by many lines at once would move what is around it.
const PIECE = 160;
const PARTS = 16;
let pouring = 0;
function pour() {
  pouring ||= requestAnimationFrame(() => {
    pouring = 0;
    for (const [run, one] of streamed) {
      const from = one.shown;
      const places = shownOf(run);
      if (from === one.text.length || places.length === 0) continue;
      one.shown = from + Math.max(PIECE, Math.ceil((one.text.length - from) / PARTS));
      // Not in the middle of a character.
      if ((one.text.charCodeAt(one.shown) & 0xfc00) === 0xdc00) one.shown += 1;
      one.shown = Math.min(one.shown, one.text.length);
      const piece = one.text.slice(from, one.shown);
      for (const place of places) {
        if (from === 0) place.textContent = piece;
        else place.append(piece);
      }
      if (one.shown < one.text.length) pour();
    }
  });
}

// What is streamed of a run is more than the daemon renders while it goes on.
const keeps = (old, fresh) => {
  // What a task would use is asked for by this page alone.
  if (["estimate", "unsent"].includes(old.id) && fresh.id === old.id) return fresh.childElementCount === 0;
  if (asksTheSame(old, fresh)) return true;
  const run = old.dataset.run;
  return run !== undefined && run === fresh.dataset.run && streamed.has(run) && fresh.textContent === "";
};

// What to do where the daemon answers, but not with the page.
function refused(reply) {
  if (reply.ok) return "";
  if (reply.status === 401) return "signed out: come in by a new link";
  return reply.status === 404 ? "this is not there any more" : "the daemon refused: trying again";
}

// What is of all sessions has no stream of its own: it is looked at again every so many seconds.
const every = Number(live()?.dataset.every);
const { session, after } = live()?.dataset ?? {};
// Where the page is rendered: not where it was sent as the answer to a form.
const address = () => document.querySelector("[data-at]")?.dataset.at ?? location.href;

// The calls that wait are counted in the head of each page. One whose daemon did not count them in time
// says nothing about them.
const counted = (page) => page.getElementById("waits");
let isLoggedOut = false;
function count(page) {
  const [shown, fresh] = [counted(document), counted(page)];
  if (!shown || !fresh || fresh.dataset.unknown !== undefined) return;
  isLoggedOut = false;
  if (shown.textContent !== fresh.textContent) shown.replaceWith(fresh);
}

// An answer that does not come is given up, and asked for again: a connection may be gone without a word.
const LONGEST = 60_000;
const get = (page) => fetch(page, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(LONGEST) });

// The daemon's page of now; none where it answers with no such page.
async function ask() {
  const reply = await get(address());
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const fresh = page.getElementById("live");
  count(page);
  return { reply, page, fresh: reply.ok && live() ? fresh : null };
}

// Style and scripts have other addresses when the daemon has another version.
const versionOf = (page) => page.querySelector('link[rel="stylesheet"]')?.getAttribute("href");
const own = versionOf(document);

function isChanged(field) {
  if (field.type === "hidden") return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (!field.options) return field.value !== field.defaultValue;
  const chosen = [...field.options].findIndex((option) => option.defaultSelected);
  return field.selectedIndex !== Math.max(chosen, 0);
}

const FIELDS = "textarea, input, select";
const holds = (node) => node.nodeType === Node.ELEMENT_NODE &&
  ((node.matches(FIELDS) && isChanged(node)) || [...node.querySelectorAll(FIELDS)].some(isChanged));

// A page of another version is not put into this one, whose scripts do not know it: the whole page is
// loaded, once for each version, unless something was written that would be lost.
function isUpgraded(page) {
  const version = versionOf(page);
  if (!version || version === own) return false;
  if (!holds(document.body) && sessionStorage.getItem("version") !== version) {
    sessionStorage.setItem("version", version);
    if (address() === location.href) location.reload();
    else location.assign(address());
  } else if (!isOld) {
    const again = document.createElement("a");
    again.href = address();
    again.textContent = "load this page again";
    link.replaceChildren("the daemon has a new version: ", again);
    isOld = true;
  }
  return true;
}

// Messages of a page that is open stay when newer ones push them out of what the daemon renders.
const MESSAGES = 300;
const numberOf = (node) => (node?.matches?.("article.message[id^='m']") ? Number(node.id.slice(1)) : NaN);
const stays = (old, fresh) => {
  if (old.id === "named" || staysAnswered(old)) return true;
  // The button of this page alone.
  if (old.matches?.(".copy")) return fresh.matches(".code");
  const first = numberOf([...fresh.children].find((child) => numberOf(child) >= 0));
  return numberOf(old) < first && old.parentElement.childElementCount < MESSAGES;
};

// Whoever reads further up goes on reading there; whoever is at the end stays at the end.
function steady(change) {
  const pane = document.querySelector(".scroller");
  const up = pane && pane.scrollTop < -8;
  const edge = up && pane.getBoundingClientRect().top;
  const seen = up && [...pane.querySelectorAll("article")].find((one) => one.getBoundingClientRect().bottom > edge);
  const before = seen && seen.getBoundingClientRect().top;
  change();
  if (seen?.isConnected) pane.scrollTop += seen.getBoundingClientRect().top - before;
}

// Older messages come when a reader reaches the oldest one of the page, until the page is full. The link
// leads to the ones before them.
const OLDER = 50;
const older = () => document.querySelector("a.older");
let loading = false;

function historyFrom(first) {
  const address = new URL(older().href);
  address.searchParams.set("from", Math.max(1, first));
  return address.href;
}

async function loadOlder() {
  const list = older()?.closest(".messages");
  const oldest = list && [...list.children].find((child) => numberOf(child) >= 0);
  const first = numberOf(oldest);
  if (loading || !(first > 1) || list.childElementCount + OLDER >= MESSAGES) return;
  loading = true;
  try {
    const reply = await get(historyFrom(first - OLDER));
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const found = [...page.querySelectorAll("article.message")].filter((one) => numberOf(one) < first);
    if (!reply.ok || versionOf(page) !== own || found.length === 0 || !oldest.isConnected) return;
    steady(() => oldest.before(...found));
    offerCopies();
    watchOlder();
  } catch {
    // The link is still there.
  } finally {
    loading = false;
  }
}

// Observed anew, a link that is still in view is reported again.
let reached = null;
function watchOlder() {
  reached?.disconnect();
  const link = older();
  const pane = link?.closest(".scroller");
  if (!pane) return;
  reached = new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting)) loadOlder();
  }, { root: pane });
  const first = numberOf(link.closest(".messages").querySelector("article.message"));
  link.hidden = first === 1;
  if (first > 1) {
    link.href = historyFrom(first - OLDER);
    reached.observe(link);
  }
}

// Messages that stay may have left the context since, or be pinned: their heads and actions say so.
const MARKS = ["altered", "compacted", "reverted", "pinned", "unpinned"];
let isMarked = false;

// `rendered`: the first message that the daemon renders.
async function renewMarked(rendered) {
  if (!isMarked) return;
  isMarked = false;
  try {
    await renewHeads(rendered);
  } catch (error) {
    isMarked = true;
    throw error;
  }
}

async function renewHeads(rendered) {
  const kept = [...(older()?.closest(".messages").children ?? [])].filter((one) => numberOf(one) < rendered);
  for (let from = numberOf(kept[0]); from < rendered; from += OLDER) {
    const reply = await get(historyFrom(from));
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    if (reply.status === 429 || reply.status >= 500) throw new Error("the daemon is busy");
    if (!reply.ok || versionOf(page) !== own) return;
    steady(() => {
      for (const one of kept) {
        const fresh = page.getElementById(one.id);
        if (!fresh) continue;
        one.className = fresh.className;
        for (const part of ["header", "details.fork"]) {
          morph(one.querySelector(`:scope > ${part}`), fresh.querySelector(`:scope > ${part}`), { holds });
        }
      }
    });
  }
}

// How far the daemon's clock is ahead of this one, in milliseconds: a page says how long a run has gone on.
let ahead = 0;
const INEXACT = 3_000;
function compareClocks(page) {
  const shown = page.querySelector("[data-since]");
  if (!shown) return;
  const found = Date.parse(shown.dataset.since) + Number.parseInt(shown.textContent, 10) * 1000 - Date.now();
  if (Math.abs(found - ahead) > INEXACT) ahead = found;
}

// The daemon folds long messages once others follow. One that is read stays open.
const openMessages = (fresh) => [...fresh.querySelectorAll("article.message[id]:has(> .fold)")].map(({ id }) => id)
  .filter((id) => document.querySelector(`#${id}:has(> .md):not(:has(> .fold))`));

// Calls that wait and are not shown yet. They are announced all the same.
let heldBack = 0;

// `taken`: a part whose form was sent, so that it is what the daemon renders, whatever was written in it.
// The output of a run that goes on is open, and stays so after its end: nothing below it moves.
function render(fresh, taken = null) {
  compareClocks(fresh);
  for (const output of live().querySelectorAll("details[open]:has([data-run])")) openFor(output);
  const kept = (node) => !taken?.contains(node) && holds(node);
  const unfolded = openMessages(fresh);
  const waited = waitingCalls(live()) + heldBack;
  heldBack = holdBack(live(), fresh);
  steady(() => {
    morph(live(), fresh, { keeps, stays, holds: kept });
    for (const id of unfolded) for (const fold of document.querySelectorAll(`#${id} > .fold`)) openFor(fold);
  });
  if (waitingCalls(live()) + heldBack > waited) said.textContent = "A call waits for you.";
  for (const [run, { text, shown }] of streamed) {
    for (const place of shownOf(run)) if (place.textContent === "") place.textContent = text.slice(0, shown);
  }
  pour();
  offerCopies();
  watchOlder();
}

let refreshing = false;
let again = false;
// Whether the page is looked at again, for want of a stream.
let isLooking = false;
const pause = (time) => new Promise((done) => setTimeout(done, time));

// A page that the daemon did not send while its events come is asked for again, later each time: no event
// may follow.
let isFollowing = false;
let later = 0;
function askLater() {
  later = Math.min(later * 2 || RETRY, RETRY_MOST);
  setTimeout(() => { if (isFollowing) refresh(); }, later);
}

async function refresh() {
  again = true;
  if (refreshing) return;
  refreshing = true;
  await pause(GATHER);
  let isBehind = false;
  while (again) {
    again = false;
    try {
      const { reply, page, fresh } = await ask();
      isBehind = reply.status === 429 || reply.status >= 500;
      if (every || isLooking) say(refused(reply));
      if (fresh && !isUpgraded(page)) {
        render(fresh);
        await renewMarked(numberOf(fresh.querySelector("article.message[id^='m']")));
      }
    } catch {
      isBehind = true;
      // The daemon is not there: the stream of events says so, and when it is back.
      if (every || isLooking) say("disconnected: trying again");
    }
    await pause(PAUSE);
  }
  refreshing = false;
  if (isBehind) askLater();
  else later = 0;
}

whenReleased(refresh);

const CHANGES = [
  "turn_accepted", "turn_started", "altered", "compacted", "compaction_failed", "reverted",
  "frozen", "run_opened", "run_stepped", "delegated", "run_retried", "run_ended", "turn_ended", "late_output_received",
  "branch_set", "posted", "pinned", "unpinned", "topic_sealed", "settings_set",
  "tools_called", "tool_started", "tool_ended", "tool_in_doubt", "tool_decided",
  // After the end of a turn a summary may be written ahead: the turn pays for it.
  "preparation_planned", "summariser_used", "summary_prepared", "preparation_dropped",
];

// Takes one of the streams of this browser. Returns what gives it back; nothing if other windows have them all.
// A browser has as many as windows if it lets this page know nothing of the others, or if HTTP/2 carries all
// streams over one connection.
async function takeStream() {
  const unlimited = () => {};
  const protocol = performance.getEntriesByType("navigation")[0]?.nextHopProtocol;
  if (!navigator.locks || ["h2", "h3"].includes(protocol)) return unlimited;
  for (let number = 0; number < STREAMS; number += 1) {
    const release = await new Promise((done) => {
      const hold = (lock) => (lock ? new Promise(done) : done(null));
      navigator.locks.request(`stream-${number}`, { ifAvailable: true }, hold).catch(() => done(unlimited));
    });
    if (release) return release;
  }
  return null;
}

// Follows a session from an event on. A stream that breaks off goes on after its last event; one that
// is refused is opened again later, from there. A browser keeps few connections to one daemon, so a page
// that nobody sees has none.
function follow() {
  let last = Number(after);
  let wait = RETRY;
  let lost = false;
  let source = null;
  let timer = 0;
  // Gives the stream back; none is taken without it.
  let release = null;
  // How often this window left.
  let left = 0;

  // What is said from now on is missing from what is shown until the reply is whole.
  function lose() {
    if (!lost) for (const one of streamed.values()) append(one, " … ");
    lost = true;
  }

  function leave() {
    isFollowing = isLooking = false;
    left += 1;
    clearTimeout(timer);
    source?.close();
    source = null;
    release?.();
    release = null;
  }

  // Looks why a stream was refused, and opens it again. The daemon may have come back with an older
  // store, where the last event never happened: then the stream begins with what the page has now.
  async function comeBack() {
    const before = left;
    try {
      const { reply, page, fresh } = await ask();
      if (!reply.ok) say(refused(reply));
      if (fresh && !isUpgraded(page)) {
        last = Math.min(last, Number(fresh.dataset.after));
        render(fresh);
      }
    } catch {
      say("disconnected: trying again");
    }
    if (before === left) begin();
  }

  // A stream ends at a logout, too: the browser would only say that it tries again.
  async function lookWhy() {
    const before = left;
    try {
      const { reply } = await ask();
      // A page that was hidden meanwhile follows nothing.
      if (reply.status !== 401 || before !== left) return;
      leave();
      say(refused(reply));
      // A new login in another tab is enough.
      timer = setTimeout(comeBack, wait);
    } catch {
      // The daemon is not there.
    }
  }

  async function begin() {
    const before = left;
    const taken = release ?? (await takeStream());
    if (before !== left) {
      taken?.();
      return;
    }
    release = taken;
    isLooking = !release;
    if (release) {
      open();
      return;
    }
    lose();
    refresh();
    timer = setTimeout(begin, LOOK);
  }

  function open() {
    const own = source = new EventSource(`/v1/sessions/${session}/events?after=${last}`);
    source.onopen = () => {
      isFollowing = true;
      say("");
      wait = RETRY;
      for (const one of streamed.values()) one.isStale = true;
      if (lost) refresh();
      lost = false;
    };
    source.onerror = () => {
      isFollowing = false;
      lose();
      if (!link.textContent || own.readyState !== EventSource.CLOSED) say("disconnected: trying again");
      if (source !== own) return;
      if (own.readyState !== EventSource.CLOSED) {
        lookWhy();
        return;
      }
      source = null;
      timer = setTimeout(comeBack, wait);
      wait = Math.min(wait * 2, RETRY_MOST);
    };
    source.addEventListener("text_delta", (event) => {
      const { run, text } = JSON.parse(event.data);
      receive(run, harmless(text));
    });
    // What was said of a reply before this page followed it.
    source.addEventListener("text_so_far", (event) => {
      const { run, text } = JSON.parse(event.data);
      replace(run, harmless(text));
    });
    source.addEventListener("progress", (event) => {
      const { turn, text } = JSON.parse(event.data);
      const shown = turn && document.querySelector(`[data-progress="${CSS.escape(turn)}"]`);
      if (shown) shown.textContent = harmless(text);
    });
    // This page read too slowly, and was not told everything. What replies have said so far comes next.
    source.addEventListener("missed", async () => {
      for (const one of streamed.values()) one.isStale = true;
      await refresh();
      say(BEHIND);
      setTimeout(() => { if (link.textContent === BEHIND) say(""); }, 10_000);
    });
    for (const name of CHANGES) {
      source.addEventListener(name, (event) => {
        last = Number(event.lastEventId) || last;
        const { run } = JSON.parse(event.data);
        // A reply is over, or another attempt begins: what comes is another text.
        if (run && name !== "run_opened") streamed.delete(run);
        isMarked ||= MARKS.includes(name);
        if (name === "turn_ended") said.textContent = "A turn has ended.";
        refresh();
      });
    }
  }

  document.addEventListener("visibilitychange", () => {
    leave();
    if (document.visibilityState === "hidden") lose();
    else begin();
  });
  if (document.visibilityState !== "hidden") begin();
}

// Those that were chosen while others were sent stay.
function removeFiles(field, sent) {
  const isSent = (file) => sent.some((one) => ["name", "size", "lastModified"].every((fact) => one[fact] === file[fact]));
  const rest = new DataTransfer();
  for (const file of field.files) if (!isSent(file)) rest.items.add(file);
  field.files = rest.files;
}

// A task is handed in without leaving the page: what is streamed from then on is not missed. The form
// is emptied once the task is taken, or says why it is not.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  const composer = form.closest("#composer");
  if (!composer || !session) return;
  event.preventDefault();
  if (composer.hasAttribute("aria-busy")) return;
  composer.setAttribute("aria-busy", "true");
  // Sent once more after a connection broke off, or after the page was left, it is the same task.
  form.elements.key.value ||= [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const key = form.elements.key.value;
  keep(form);
  const written = new FormData(form);
  // Without a chosen file there is one without a name.
  const sent = written.getAll("file").filter((file) => file.name !== "");
  const files = sent.length > 0;
  try {
    if (files) sayUnsent("Sending the files …");
    else written.delete("file");
    const body = files ? written : new URLSearchParams(written);
    // How long files take is not known.
    const limit = () => (files ? {} : { signal: AbortSignal.timeout(LONGEST) });
    const send = () => fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" }, ...limit() });
    // After a connection that broke off, once more: by its key it is the same task.
    const reply = await send().catch(() => {
      if (files) sayUnsent("The connection ended. Sending the files again …");
      return send();
    });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh) {
      const why = page.querySelector("main p")?.textContent ?? `the daemon answered ${reply.status}`;
      sayUnsent(`Not sent: ${why}`);
      return;
    }
    sayUnsent("");
    // What was written meanwhile is another task, and stays.
    const isSame = form.elements.key.value === key;
    form.elements.key.value = "";
    composer.removeAttribute("data-keep");
    if (reply.ok && isSame) {
      form.reset();
      forget(form);
      document.getElementById("estimate")?.replaceChildren();
    } else {
      keep(form);
    }
    // The form of the reply has the stored files.
    removeFiles(form.elements.file, sent);
    render(fresh, composer);
    if (reply.ok) said.textContent = "The task was taken.";
    else document.getElementById("task")?.focus();
  } catch {
    const why = (await unreadable(sent)) ?? "the connection ended. The daemon may be gone, or the files are too large for it.";
    sayUnsent(files ? `Not sent: ${why}` : "Not sent: the daemon does not answer. The task is kept here; send it again.");
  } finally {
    composer.removeAttribute("aria-busy");
  }
});

// As in most places where a message is written.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.target.id !== "task") return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

// Blocks of code can be copied, where the browser lets a page do that.
function offerCopies() {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll(".code:not(:has(> button))")) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "small plain copy";
    copy.textContent = "Copy";
    block.append(copy);
  }
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest?.(".copy");
  if (!copy) return;
  const text = copy.parentElement.querySelector("code").textContent;
  const isCopied = await navigator.clipboard.writeText(text).then(() => true, () => false);
  said.textContent = isCopied ? "Copied." : "Not copied: the browser does not allow it.";
  copy.textContent = isCopied ? "Copied" : "Not allowed";
  setTimeout(() => { copy.textContent = "Copy"; }, 2_000);
});

// The conversation has the newest messages only: a link to an older one leads to the history.
function leadToHistory() {
  const number = Number(/^#m(\d+)$/.exec(location.hash)?.[1]);
  if (!number || location.pathname !== `/sessions/${session}`) return;
  const branch = new URLSearchParams(location.search).get("branch") ?? "main";
  const query = new URLSearchParams({ branch, from: Math.max(1, number - 3) });
  location.replace(`/sessions/${session}/history?${query}${location.hash}`);
}

// A link to a message that is on this page opens it. A page that is loaded again stays what it is.
let isReloaded = performance.getEntriesByType("navigation")[0]?.type === "reload";
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) {
    if (!isReloaded) leadToHistory();
    return;
  }
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") openFor(part);
  const own = target.querySelector(":scope > details.fold");
  if (own) openFor(own);
}

// A login leads to the part of the page that was asked for. A link to the same page with a part would not
// ask the daemon.
function keepPart() {
  const login = document.querySelector("form[action='/login']");
  if (!login || !location.hash) return;
  login.action += location.hash;
  const again = document.querySelector("main a[href='']");
  const address = new URL(location.href);
  address.searchParams.append("again", "");
  if (again) again.href = address.href;
}

// A call that waits in another session is no event of this page: the number alone is asked for.
// After a logout only a page that becomes visible asks: a login in another tab is enough.
async function askForCount(event) {
  if (document.visibilityState !== "visible" || !counted(document) || (isLoggedOut && !event)) return;
  try {
    const reply = await get("/approvals/count");
    if (reply.ok) count(new DOMParser().parseFromString(await reply.text(), "text/html"));
    else if (reply.status === 401) {
      isLoggedOut = true;
      counted(document).replaceChildren();
    }
  } catch {
    // The daemon is not there.
  }
}

if (session) follow();
if (!every) {
  setInterval(() => askForCount(), COUNT);
  document.addEventListener("visibilitychange", askForCount);
}
if (every) {
  setInterval(() => { if (document.visibilityState === "visible") refresh(); }, every * 1000);
}
keepPart();
compareClocks(document);
offerCopies();
watchOlder();
openTarget();
addEventListener("hashchange", () => {
  isReloaded = false;
  openTarget();
});
// How long runs have gone on.
setInterval(() => {
  for (const shown of document.querySelectorAll("[data-since]")) {
    const seconds = Math.max(0, Math.round((Date.now() + ahead - Date.parse(shown.dataset.since)) / 1000));
    shown.textContent = `${seconds} s`;
  }
}, 1000);
