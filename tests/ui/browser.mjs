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

// A window that was let in. Whatever a page says on its console is a fault.
export async function enter(browser, place, options = {}) {
  const context = await browser.newContext(options);
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
