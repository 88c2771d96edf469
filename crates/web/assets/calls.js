// Calls that wait for a person. A click that was meant for one must not answer another: while a person may
// be about to answer, no card leaves its place, and none is put above or below the pointer.

const CARD = "article[id^='call-']";
// Parts of a page that have nothing but cards. The one of a session or a turn goes with its last call, unless
// the pointer is on a card.
const CARDS = `${CARD}, #waiting:has(${CARD}:hover), section[id^='in-']`;
const SETTLED = `${CARD}:has(> form button:disabled)`;
// Cards of a page that stays open.
const MOST = 100;

// Whether something comes or goes when the pointer is on no card.
let isHeldBack = false;

export const waitingCalls = (part) => part.querySelectorAll(CARD).length;

// What a card asks changes after a crash only.
const questionOf = (card) => card.querySelector("h3")?.textContent;
export const asksTheSame = (old, fresh) =>
  old.matches(CARD) && !old.matches(SETTLED) && questionOf(old) === questionOf(fresh);

// Whether a part that the daemon renders no more stays: its calls were answered elsewhere.
export function staysAnswered(part) {
  if (!part.matches?.(CARDS) || document.querySelectorAll(CARD).length > MOST) return false;
  const answers = [...part.querySelectorAll(`${CARD} > form button`)];
  for (const answer of answers) answer.textContent = "Waits no longer";
  for (const button of part.querySelectorAll("form button")) button.disabled = true;
  isHeldBack ||= part.id === "waiting";
  return answers.length > 0;
}

// They stay as long as this page is looked at, and longer with a text that was not sent.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "hidden") return;
  for (const card of document.querySelectorAll(SETTLED)) {
    if ([...card.querySelectorAll("input[name='text']")].every((field) => field.value === "")) card.remove();
  }
});

// What a click is meant for, and new cards that would move it: calls, and a turn above one that is cancelled.
const AIMS = { [CARD]: CARD, "article.turn form button": "article.turn" };

// What was touched stays hovered, though no pointer is on it any more.
let isTouched = false;
document.addEventListener("pointerover", ({ pointerType }) => { isTouched = pointerType === "touch"; });

// Leaves new cards out of what is shown while the pointer is on what they would move. The number of calls
// that are left out.
export function holdBack(shown, fresh) {
  isHeldBack = false;
  if (isTouched) return 0;
  const all = waitingCalls(fresh);
  for (const [aim, cards] of Object.entries(AIMS)) {
    if (!shown.querySelector(`${aim}:hover`)) continue;
    for (const card of fresh.querySelectorAll(cards)) {
      if (document.getElementById(card.id)) continue;
      (card.closest("section[id^='in-']") ?? card).remove();
      isHeldBack = true;
    }
  }
  return all - waitingCalls(fresh);
}

// `show` shows what was held back.
export function whenReleased(show) {
  const aims = Object.keys(AIMS).join();
  document.addEventListener("mouseout", ({ target, relatedTarget }) => {
    if (isHeldBack && target.closest?.(aims) && !relatedTarget?.closest?.(aims)) show();
  });
}
