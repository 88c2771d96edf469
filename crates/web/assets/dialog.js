// Pages that ask for something open over the one that leads to them. Without this they are pages.

async function open(address) {
  document.body.setAttribute("aria-busy", "true");
  try {
    await fill(address);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

async function fill(address) {
  const reply = await fetch(address, { headers: { Accept: "text/html" } });
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

document.addEventListener("click", (event) => {
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  const link = event.target.closest?.("a");
  if (!link || !plain || event.button !== 0) return;
  if (link.matches("dialog [data-close]")) {
    event.preventDefault();
    link.closest("dialog").close();
  } else if (link.matches("[data-dialog]")) {
    event.preventDefault();
    open(link.href).catch(() => location.assign(link.href));
  }
});

// What numbers are shown for other messages is shown in the same place.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "get" || !form.closest("dialog")) return;
  event.preventDefault();
  const address = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
  form.closest("dialog").close();
  open(address).catch(() => location.assign(address));
});
