// Makes a part of the page what the daemon renders now, and leaves alone what did not change: the
// focus, what is being written, the place that is scrolled to, and what a person has opened.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id : "");

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// What a person, or the search of the browser, has opened or closed stays so. `told` has what the daemon has
// opened or closed, which is reported later as if a person had.
const touched = new WeakSet();
const told = new WeakSet();
export const openFor = (details) => {
  details.open = true;
  touched.add(details);
};
document.addEventListener("click", (event) => {
  const summary = event.target.closest?.("summary");
  if (summary) touched.add(summary.parentElement);
});
document.addEventListener("toggle", ({ target }) => {
  if (target.nodeName === "DETAILS" && !told.delete(target)) touched.add(target);
}, true);
function expectOpen(node) {
  for (const one of [node, ...(node.querySelectorAll?.("details[open]") ?? [])]) if (one.open) told.add(one);
}
expectOpen(document.body);

function attributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (fresh.hasAttribute(name) || (name === "open" && touched.has(old))) continue;
    // The daemon renders no style: this is the size that a person gave to a field.
    if (name === "style") continue;
    if (name === "open") told.add(old);
    old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name === "open" && touched.has(old)) continue;
    if (old.getAttribute(name) === value) continue;
    if (name === "open") told.add(old);
    old.setAttribute(name, value);
  }
}

// `keeps(old, fresh)`: whether a part stays as it is. `stays(old, fresh)`: whether one stays that the
// daemon does not render any more, below what is `fresh` now. `holds(old)`: whether something was written
// in it, which would be lost.
export function morph(old, fresh, rules = {}) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep") || rules.keeps?.(old, fresh)) return;
  if (old.nodeName === "FORM" && rules.holds?.(old)) return;
  attributes(old, fresh);
  children(old, fresh, rules);
}

// What is moved loses the focus.
function move(parent, node, before) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, before);
  focused?.focus({ preventScroll: true });
}

function children(old, fresh, rules) {
  const wanted = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
  // First what is gone: what stays is then in its place, and is not moved.
  const stay = new Set();
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (!key || wanted.has(key)) continue;
    if (rules.stays?.(child, fresh) || rules.holds?.(child)) stay.add(child);
    else child.remove();
  }
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  const after = (node) => {
    let next = node;
    while (stay.has(next)) next = next.nextSibling;
    return next;
  };
  let at = after(old.firstChild);
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const found = key ? keyed.get(key) : at;
    if (found && alike(found, next)) {
      if (found !== at) move(old, found, at);
      else at = after(at.nextSibling);
      morph(found, next, rules);
    } else {
      const added = document.importNode(next, true);
      expectOpen(added);
      old.insertBefore(added, at);
    }
  }
  while (at) {
    const rest = after(at.nextSibling);
    if (!rules.holds?.(at) && !rules.stays?.(at, fresh)) at.remove();
    at = rest;
  }
}
