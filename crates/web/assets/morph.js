// Makes a part of the page what the daemon renders now, and leaves alone what did not change: the
// focus, what is being written, the place that is scrolled to, and what a person has opened.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id : "");

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// What a person has opened or closed stays so.
const touched = new WeakSet();
export const openFor = (details) => {
  details.open = true;
  touched.add(details);
};
document.addEventListener("click", (event) => {
  const summary = event.target.closest?.("summary");
  if (summary) touched.add(summary.parentElement);
});

function attributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (fresh.hasAttribute(name) || (name === "open" && touched.has(old))) continue;
    // A dialog or a menu that the script opened is none of the daemon's.
    old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name === "open" && touched.has(old)) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// `keeps(old, fresh)`: whether a part stays as it is.
export function morph(old, fresh, keeps = () => false) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep") || keeps(old, fresh)) return;
  attributes(old, fresh);
  children(old, fresh, keeps);
}

function children(old, fresh, keeps) {
  const wanted = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
  // First what is gone: what stays is then in its place, and is not moved.
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (key && !wanted.has(key)) child.remove();
  }
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const found = key ? keyed.get(key) : at;
    if (found && alike(found, next)) {
      if (found !== at) old.insertBefore(found, at);
      else at = at.nextSibling;
      morph(found, next, keeps);
    } else {
      old.insertBefore(document.importNode(next, true), at);
    }
  }
  while (at) {
    const rest = at.nextSibling;
    at.remove();
    at = rest;
  }
}
