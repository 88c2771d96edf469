// Pages that ask for something open over the one that leads to them. Without this they are pages. A form is
// sent once.

async function open(address) {
  // The second click of a double click.
  if (document.body.hasAttribute("aria-busy")) return;
  document.body.setAttribute("aria-busy", "true");
  try {
    await fill(address);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

// How long a dialog is waited for, before the browser opens its page: in milliseconds.
const LONGEST = 20_000;

async function fill(address) {
  const reply = await fetch(address, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(LONGEST) });
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const content = page.querySelector(".dialog");
  if (!reply.ok || !content) {
    location.assign(address);
    return;
  }
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", content.getAttribute("aria-labelledby"));
  const close = document.createElement("button");
  close.type = "button";
  close.className = "close";
  close.setAttribute("aria-label", "Close");
  close.textContent = "×";
  close.addEventListener("click", () => dialog.close());
  dialog.append(close, content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Whether a link leads to a message of the branch that this page shows.
function isHere(link) {
  const branchOf = (address) => new URL(address).searchParams.get("branch") ?? "main";
  const shown = document.querySelector(`#live #${CSS.escape(link.hash.slice(1))}`);
  return shown !== null && branchOf(link.href) === branchOf(location.href);
}

document.addEventListener("click", (event) => {
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  const link = event.target.closest?.("a");
  if (!link || !plain || event.button !== 0) return;
  if (link.matches("dialog [data-close]")) {
    event.preventDefault();
    link.closest("dialog").close();
  } else if (link.matches("dialog a[href*='#m']") && isHere(link)) {
    event.preventDefault();
    link.closest("dialog").close();
    location.hash = link.hash;
    document.getElementById(link.hash.slice(1)).scrollIntoView();
  } else if (link.matches("[data-dialog]")) {
    event.preventDefault();
    open(link.href).catch(() => location.assign(link.href));
  }
});

// The page that a form asks for is shown in a dialog too, in place of the one with the form. A button can
// ask for another page than the form's own. A file is not a page: the browser saves it.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const method = event.submitter?.getAttribute("formmethod") ?? form.method;
  if (method !== "get" || !(form.closest("dialog") || form.matches("[data-dialog]"))) return;
  if (form.hasAttribute("data-file")) {
    form.closest("dialog")?.close();
    return;
  }
  event.preventDefault();
  const address = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
  form.closest("dialog")?.close();
  open(address).catch(() => location.assign(address));
});

// A double click would begin the work of a form twice. One whose answer does not come can be sent again.
const SENT = 5_000;
const sent = new WeakSet();
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if (sent.has(form)) event.preventDefault();
  sent.add(form);
  setTimeout(() => sent.delete(form), SENT);
});
// A page that is gone back to may come with what it had.
addEventListener("pageshow", () => {
  for (const form of document.forms) sent.delete(form);
});
