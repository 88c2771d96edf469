// Keys for everything that is asked for often, a palette of places and actions, and what a task is
// expected to use before it is sent. The page works without this.

import { harmless } from "./harmless.js";

const KEYS = [
  ["?", "This list"],
  ["Ctrl K, ⌘ K", "Go to a session, an agent or a page"],
  ["/", "Search"],
  ["c", "Write a task"],
  ["Ctrl Enter", "Send the task"],
  ["g s", "Sessions"], ["g a", "Agents"], ["g u", "Usage"], ["g w", "Calls that wait"], ["g t", "Settings"],
  ["@", "In a task: choose an agent; Tab takes the first one"],
  ["↑ ↓, Enter", "In the list of places: choose, go there"],
  ["Esc", "Close"],
];

const PAGES = [
  ["Sessions", "/"], ["Agents", "/agents"], ["Approvals: calls that wait", "/approvals"], ["Schedules", "/schedules"],
  ["Usage", "/usage"], ["Usage by day", "/usage?by=day"], ["Settings", "/settings"], ["Doctor", "/doctor"], ["Cluster", "/cluster"],
  ["Import a conversation", "/import"], ["New conversation", "/#new"],
];

// Whether the viewer may open a page: one that needs more rights is no link in the head of the page.
const ADMIN = ["/settings", "/doctor", "/cluster"];
function opens(address) {
  return !ADMIN.includes(address) || document.querySelector("header.top [data-lacks='admin']") === null;
}
const pages = () => PAGES.filter(([, address]) => opens(address));

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

function dialog(className, label) {
  document.querySelector("dialog.palette, dialog.keys")?.close();
  const box = make("dialog", { class: className, "aria-label": label });
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  return box;
}

function keys() {
  const box = dialog("keys", "Keys");
  const list = make("dl", { class: "facts" });
  const all = KEYS.filter(([key]) => !key.startsWith("g ") || opens(GO[key.slice(2)]));
  for (const [key, says] of all) list.append(make("dt", {}, make("kbd", {}, key)), make("dd", {}, says));
  const close = make("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => box.close());
  box.append(close, make("h2", {}, "Keys"), list);
  box.showModal();
}

// Actions of the page that is open: its links and buttons that have a name of their own, calls that wait,
// checkpoints and branches; and other pages. The first one is what Enter alone does: it answers no call.
function places() {
  const { session } = document.getElementById("live")?.dataset ?? {};
  if (!session) return [...pages(), ...calls()];
  const within = [...document.querySelectorAll("nav[aria-label='Session'] a, .beside-talk a.button")];
  const task = document.getElementById("task") ? [["This session: write a task", "#task"]] : [];
  const links = within.map((link) => [`This session: ${link.textContent.trim()}`, link.getAttribute("href")]);
  return [
    ...links, ...calls(), ...task, ["This session: to the newest message", "#newest"],
    ...cut(".made a[href*='/revert']", ({ parentElement }) => `Undo: ${titleOf(parentElement.parentElement)} …`),
    ...cut("article.message details.fork:has(form) > summary", (fork) => `Branch at message ${fork.closest("article").id.slice(1)} …`),
    ...pages(),
  ];
}

// The newest of some elements of the page, each as an action that clicks it and leads to what opens.
const NEWEST = 8;
const cut = (sought, says) => [...document.querySelectorAll(sought)].slice(-NEWEST).reverse().map((node) => [says(node), () => open(node)]);
const titleOf = (card) => card.querySelector("summary").textContent.trim().replace(/\s+/g, " ").slice(0, 60);

function open(node) {
  node.scrollIntoView({ block: "center" });
  node.click();
  const details = node.parentElement;
  if (details.open) details.querySelector("input:not([type='hidden'])")?.focus();
}

// What can be answered of the calls that wait: approved at once, denied with a reason.
function calls() {
  const cards = [...document.querySelectorAll("article[id^='call-']:has(> form button:enabled)")].slice(0, NEWEST);
  return cards.flatMap((card) => {
    const asks = card.querySelector("h3").textContent.trim().replace(/\s+/g, " ");
    const answers = [...card.querySelectorAll(":scope > form button, :scope > details:has(form) > summary")];
    return answers.map((answer) => [`${answer.textContent.trim()}: ${asks}`, () => open(answer)]);
  });
}

// Characters of a session's title in the palette.
const TITLE = 200;

async function found() {
  const read = async (path) => {
    try {
      const reply = await fetch(path, { headers: { Accept: "application/json" } });
      return reply.ok ? reply.json() : [];
    } catch {
      return [];
    }
  };
  const [sessions, agents] = await Promise.all([read("/v1/sessions?by_change=true&limit=100"), read("/v1/agents")]);
  return [
    ...(sessions.items ?? []).map(({ session, title }) => [`Session: ${harmless(title).slice(0, TITLE)}`, `/sessions/${session}`]),
    ...agents.map(({ agent }) => [`Agent: ${agent}`, `/agents/${encodeURIComponent(agent)}`]),
  ];
}

// All letters in their order; those at beginnings of words count more.
function score(text, sought) {
  const low = text.toLowerCase();
  const whole = low.indexOf(sought);
  if (whole >= 0) return 1_000 - whole - low.length / 100;
  let at = -1;
  let sum = 0;
  for (const letter of sought) {
    at = low.indexOf(letter, at + 1);
    if (at < 0) return -1;
    sum += at === 0 || low[at - 1] === " " ? 10 : 1;
  }
  return sum;
}

const SHOWN = 12;

function palette() {
  const box = dialog("palette", "Go to");
  const field = make("input", {
    type: "text", role: "combobox", "aria-label": "Go to a session, an agent or a page", "aria-expanded": "true",
    "aria-controls": "places", "aria-autocomplete": "list", autocomplete: "off", placeholder: "Go to …",
  });
  const list = make("ul", { id: "places", role: "listbox", "aria-label": "Places" });
  box.append(field, list);
  let all = places();
  let shown = [];
  let at = 0;
  const go = (place) => {
    if (!place) return;
    box.close();
    if (typeof place[1] === "function") place[1]();
    else if (place[1] === "#task") document.getElementById("task")?.focus();
    else location.assign(place[1]);
  };
  const draw = () => {
    list.replaceChildren(...shown.map(([says], place) => {
      const item = make("li", { role: "option", id: `place-${place}`, "aria-selected": String(place === at) }, says);
      item.addEventListener("click", () => go(shown[place]));
      return item;
    }));
    if (shown.length > 0) field.setAttribute("aria-activedescendant", `place-${at}`);
    else field.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const seek = () => {
    const sought = field.value.trim().toLowerCase();
    const scored = all.map((place) => [score(place[0], sought), place]);
    const matching = scored.filter(([points]) => sought === "" || points >= 0);
    if (sought !== "") matching.sort((a, b) => b[0] - a[0]);
    shown = matching.slice(0, SHOWN).map(([, place]) => place);
    if (sought !== "") shown.push([`Search all that was said: ${field.value.trim()}`, `/?q=${encodeURIComponent(field.value.trim())}`]);
    at = 0;
    draw();
  };
  field.addEventListener("input", seek);
  field.addEventListener("keydown", (event) => {
    // These keys are for the input method. Safari tells it by the number.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + shown.length) % Math.max(1, shown.length);
      draw();
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(shown[at]);
    }
  });
  seek();
  box.showModal();
  found().then((more) => {
    all = [...all, ...more];
    if (!box.isConnected) return;
    // What a person has moved to stays chosen.
    const chosen = at > 0 ? shown[at][0] : null;
    seek();
    at = Math.max(0, shown.findIndex(([says]) => says === chosen));
    draw();
  });
}

// The letter of a key, also on a keyboard for another script.
const letterOf = ({ key = "", code = "" }) => (/^[^ -~]$/u.test(key) ? code.replace(/^Key/, "").toLowerCase() : key);

const writes = (node) => node?.matches?.("input, textarea, select, [contenteditable]");
const GO = { s: "/", a: "/agents", u: "/usage", w: "/approvals", t: "/settings" };
let going = -Infinity;

document.addEventListener("keydown", (event) => {
  const letter = letterOf(event);
  if ((event.ctrlKey || event.metaKey) && !event.altKey && letter.toLowerCase() === "k") {
    event.preventDefault();
    palette();
    return;
  }
  const plain = !(event.ctrlKey || event.metaKey || event.altKey);
  if (!plain || writes(event.target) || document.querySelector("dialog[open]")) return;
  if (event.timeStamp - going < 1_500 && GO[letter]) {
    going = -Infinity;
    if (opens(GO[letter])) location.assign(GO[letter]);
  } else if (letter === "?") {
    event.preventDefault();
    keys();
  } else if (letter === "g") {
    going = event.timeStamp;
  } else if (letter === "/") {
    const field = document.getElementById("within") ?? document.getElementById("q");
    if (!field) return;
    event.preventDefault();
    field.focus();
  } else if (letter === "c") {
    const field = document.getElementById("task") ?? document.getElementById("title");
    if (!field) return;
    event.preventDefault();
    field.focus();
  }
});

// An agent that is named with @ in a task is chosen: what is written after it is completed.
const chips = () => [...document.querySelectorAll(".chips input[name='agent']")];

function suggest(field) {
  for (const [, name] of field.value.matchAll(/(?:^|\s)@([\w-]+)(?=[^\w\s-])/g)) {
    const chip = chips().find((chip) => chip.value === name);
    if (!chip || chip.checked) continue;
    chip.checked = true;
    chip.dispatchEvent(new Event("change", { bubbles: true }));
  }
  const before = field.value.slice(0, field.selectionStart);
  const whole = /(?:^|\s)@([\w-]+)\s$/.exec(before);
  const named = whole && chips().find((chip) => chip.value === whole[1]);
  if (named) {
    take(field, named);
    return;
  }
  const begun = /(?:^|\s)@([\w-]*)$/.exec(before);
  const names = begun ? chips().filter((chip) => chip.value.startsWith(begun[1])) : [];
  let list = document.getElementById("named");
  if (names.length === 0) {
    list?.remove();
    return;
  }
  if (!list) {
    list = make("div", { id: "named", class: "chips", role: "group", "aria-label": "Agents with that name" });
    field.after(list);
  }
  // Whoever does not see the list is told what the key does now.
  const says = `Tab chooses ${names[0].value}.`;
  const said = document.getElementById("said");
  if (said.textContent !== says) said.textContent = says;
  list.replaceChildren(...names.slice(0, 8).map((chip) => {
    const choose = make("button", { type: "button", class: "small plain" }, chip.value);
    choose.addEventListener("click", () => take(field, chip));
    return choose;
  }));
}

function take(field, chip) {
  const start = field.value.slice(0, field.selectionStart).replace(/@[\w-]*\s?$/, "");
  field.value = start + field.value.slice(field.selectionStart);
  field.setSelectionRange(start.length, start.length);
  chip.checked = true;
  document.getElementById("named")?.remove();
  field.focus();
  chip.dispatchEvent(new Event("change", { bubbles: true }));
}

document.addEventListener("keydown", (event) => {
  const list = document.getElementById("named");
  if (!list || event.target.id !== "task") return;
  if (event.key === "Tab" && !event.shiftKey) {
    event.preventDefault();
    list.querySelector("button").click();
  } else if (event.key === "Escape") {
    list.remove();
  }
});

// What a task is expected to use is said once no key was pressed for a while.
const IDLE = 700;
let timer;
let asked = 0;

async function estimate(form) {
  const shown = document.getElementById("estimate");
  if (!shown) return;
  const own = ++asked;
  const task = form.elements.task.value;
  if (task.trim() === "") {
    shown.replaceChildren();
    return;
  }
  try {
    const written = new FormData(form);
    written.delete("file");
    const body = new URLSearchParams(written);
    const reply = await fetch(document.getElementById("estimating").formAction, { method: "POST", body, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.getElementById("estimate");
    // The task may have been sent meanwhile.
    const isCurrent = own === asked && form.elements.task.value === task;
    if (isCurrent && reply.ok && fresh) shown.replaceChildren(...fresh.childNodes);
  } catch {
    // The daemon is not there: the page says so elsewhere.
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (event.target.id === "task") suggest(event.target);
  if (!form?.closest("#composer")) return;
  clearTimeout(timer);
  timer = setTimeout(() => estimate(form), IDLE);
});
document.addEventListener("change", (event) => {
  const form = event.target.form;
  if (form?.closest("#composer")) estimate(form);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("#estimating");
  if (!button) return;
  event.preventDefault();
  estimate(button.form);
});
