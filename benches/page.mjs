// The page in a real browser, as rows of benches/README.md. `UNISONO` names the program. Processor time is
// that of the daemon, all threads: unlike the time on a clock it does not grow with what else the machine does.

import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { browser as launch, enter, received, shifting } from "../tests/ui/browser.mjs";
import { Place } from "../tests/ui/place.mjs";
import { streaming, team } from "../tests/ui/tools.mjs";

const ROUNDS = 41;
// How often the tokens take turns, and the requests of each.
const TURNS = 9;
const REQUESTS = 1_000;
const MESSAGES = 10_000;

const middle = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];
const worst = (all) => Math.max(...all);
const ms = (time) => `${time.toFixed(1)} ms`;
const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
const row = (what, target, result, met) => console.log(`| ${what} | ${target} | ${result} | ${met === undefined ? "" : met ? "yes" : "no"} |`);

// The processor time of the daemon so far, in milliseconds; in steps of 10.
function processor(place) {
  const fields = readFileSync(`/proc/${place.daemon.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

// A request on a connection that stays, from its sending to the last byte of its answer.
function ask(place, agent, path, token, accept = "text/html") {
  const { hostname, port } = new URL(place.address);
  const headers = { Authorization: `Bearer ${token}`, Accept: accept, "Accept-Encoding": "gzip" };
  return new Promise((done, failed) => {
    const begun = performance.now();
    request({ hostname, port, path, agent, headers }, (reply) => {
      let bytes = 0;
      reply.on("data", (piece) => { bytes += piece.length; });
      reply.on("end", () => {
        const time = performance.now() - begun;
        if (reply.statusCode === 200) done({ time, bytes });
        else failed(new Error(`${path}: ${reply.statusCode}`));
      });
    }).on("error", failed).end();
  });
}

async function rendered(place, what, path) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const first = await ask(place, agent, path, place.token);
  const times = [];
  const before = processor(place);
  for (let round = 0; round < ROUNDS; round++) times.push((await ask(place, agent, path, place.token)).time);
  const used = (processor(place) - before) / ROUNDS;
  row(`${what}: the daemon's processor time`, "≤ 100 ms", ms(used), used <= 100);
  row(`${what}: until its last byte`, "", `first ${ms(first.time)}, p50 ${ms(middle(times))}`);
  row(`${what}: the page alone, compressed`, "≤ 60 KiB", kib(first.bytes), first.bytes <= 60 * 1024);
  agent.destroy();
}

// All that a browser loads that has nothing yet.
async function loaded(browser, place, path) {
  const page = await enter(browser, place);
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  await client.send("Network.clearBrowserCache");
  let bytes = 0;
  client.on("Network.loadingFinished", ({ encodedDataLength }) => { bytes += encodedDataLength; });
  await page.goto(place.address + path, { waitUntil: "load" });
  await page.waitForTimeout(300);
  await page.context().close();
  return bytes;
}

// From the click to the page that has loaded, as the browser measures it.
async function opened(browser, place, path) {
  const page = await enter(browser, place);
  const times = [];
  for (let round = 0; round < ROUNDS; round++) {
    await page.goto(place.address + path, { waitUntil: "load" });
    times.push(await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd));
  }
  await page.context().close();
  return times;
}

async function live(browser, place, session) {
  const page = await enter(browser, place);
  await page.goto(`${place.address}/sessions/${session}`);
  await page.waitForTimeout(500);
  const turn = async (task) => {
    const shown = await page.locator(".turn > header .state.answered").count();
    const [bytes, shift] = [await received(page), await shifting(page)];
    await place.ask("POST", `/v1/sessions/${session}/turns`, { task, wait: false });
    await page.waitForFunction((shown) => document.querySelectorAll(".turn > header .state.answered").length > shown, shown);
    await page.waitForTimeout(1_000);
    return { bytes: bytes(), shift: await shift() };
  };
  const first = await turn("When is the move?");
  await page.locator(".scroller").evaluate((pane) => { pane.scrollTop = -pane.scrollHeight / 2; });
  await page.waitForTimeout(600);
  const scrolled = await turn("And who moves?");
  await page.context().close();
  return [first, scrolled];
}

// An owner with 20 sessions among 220 others; the owner's token.
async function owned(place) {
  const { secret } = await place.ask("POST", "/v1/tokens", { name: "ada", scope: "ask", owner: "ada" });
  for (let n = 0; n < 240; n++) {
    place.bearer = n % 12 === 0 ? secret : undefined;
    await place.ask("POST", "/v1/sessions", { title: `${n}`, messages: [{ role: "user", content: "We move." }] });
  }
  place.bearer = undefined;
  return secret;
}

// The same request with the daemon's token and with one of an owner, many at a time in turn: processor time
// of each, in microseconds.
async function authorised(place, secret, path) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const used = { whole: [], owner: [] };
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [who, token] of [["whole", place.token], ["owner", secret]]) {
      const before = processor(place);
      for (let n = 0; n < REQUESTS; n++) await ask(place, agent, path, token, "application/json");
      used[who].push(((processor(place) - before) / REQUESTS) * 1_000);
    }
  }
  agent.destroy();
  return { whole: middle(used.whole), owner: middle(used.owner) };
}

// Three delegates and the lead, each with a reply of 500 tokens as a fast model streams it.
const provider = await streaming({ tokens: 500, perSecond: 100 });
const unlimited = "[server]\nrequests_per_second = 0\ntoken_requests_per_minute = 0\n";
const place = await new Place(unlimited + team(provider.address)).serve();
const browser = await launch();
try {
  const messages = Array.from({ length: MESSAGES }, (_, at) => ({
    role: at % 2 ? "assistant" : "user", content: `${at + 1}: The move is on **Friday**. ${"Nothing else is known. ".repeat(9)}`,
  }));
  const { session } = await place.ask("POST", "/v1/sessions", { title: "Long", messages });
  console.log("| what | target | result | met |\n|---|---|---|---|");
  await rendered(place, "first page", "/");
  const all = await loaded(browser, place, "/");
  row("first page: all that a browser loads", "≤ 60 KiB", kib(all), all <= 60 * 1024);
  const at = `/sessions/${session}`;
  for (const part of ["", "/history", "/context", "/tree"]) await rendered(place, `session of ${MESSAGES} messages ${part || "/"}`, at + part);
  const whole = await loaded(browser, place, at);
  row("its page: all that a browser loads", "≤ 60 KiB", kib(whole), whole <= 60 * 1024);
  const times = await opened(browser, place, at);
  row("its page, opened in Chromium", "≤ 300 ms", `p50 ${ms(middle(times))}, worst ${ms(worst(times))}`, middle(times) <= 300);
  const turns = await live(browser, place, session);
  const bytes = turns.map((turn) => turn.bytes);
  const shifts = turns.map((turn) => turn.shift);
  row("a live turn of 3 agents that stream 500 tokens there, at the end and scrolled", "≤ 100 KiB", bytes.map(kib).join(", "), worst(bytes) <= 100 * 1024);
  row("layout shift of each", "≤ 0.02", shifts.map((shift) => shift.toFixed(4)).join(", "), worst(shifts) <= 0.02);
  const secret = await owned(place);
  for (const [what, path] of [["settings", "/v1/settings/keys"], ["20 sessions of 240", "/v1/sessions?limit=20"]]) {
    const { whole: daemon, owner } = await authorised(place, secret, path);
    const more = owner - daemon;
    row(`a request of an owner's token beside one of the daemon's, processor time: ${what}`, "≤ 50 µs more", `${more.toFixed(0)} µs (${owner.toFixed(0)} and ${daemon.toFixed(0)} µs)`, more <= 50);
  }
} finally {
  await browser.close();
  await place.stop();
  await provider.close();
}
