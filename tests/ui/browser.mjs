// A browser that came by a daemon's link.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

// Screenshots are kept where this says; nowhere unless it is set.
const shots = process.env.UNISONO_SHOTS;

export function browser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
}

// A window that was let in, until the place is stopped. Whatever a page says on its console is a fault.
export async function enter(browser, place, options = {}) {
  const context = await browser.newContext(options);
  place.visitors.push(context);
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.faults.push(message.text());
  });
  const { url } = await place.ask("POST", "/v1/login-links");
  await page.goto(url);
  return page;
}

export async function shot(page, name, fullPage = true) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`), fullPage });
}

// Counts what a page receives from now on, in bytes as they are sent: also of streams, which never end.
export async function received(page) {
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  const bytes = new Map();
  client.on("Network.dataReceived", ({ requestId, dataLength }) => {
    bytes.set(requestId, (bytes.get(requestId) ?? 0) + dataLength);
  });
  // What has an end is known as it was sent, compressed and with its headers.
  client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => bytes.set(requestId, encodedDataLength));
  return () => [...bytes.values()].reduce((sum, size) => sum + size, 0);
}

// Sums the layout shifts of a page from now on; `moved` has what moved, and by how much.
export async function shifting(page) {
  await page.evaluate(() => {
    window.shift = 0;
    window.moved = [];
    const name = (node) => [node?.nodeName, node?.id, node?.className].filter(Boolean).join(".");
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        if (entry.hadRecentInput) continue;
        window.shift += entry.value;
        const sources = entry.sources.map(({ node, previousRect, currentRect }) => `${name(node)} ${previousRect.y}->${currentRect.y}`);
        window.moved.push(`${entry.value.toFixed(4)}: ${sources.join(", ")}`);
      }
    }).observe({ type: "layout-shift" });
  });
  const shift = () => page.evaluate(() => window.shift);
  shift.moved = () => page.evaluate(() => window.moved.join("\n"));
  return shift;
}
