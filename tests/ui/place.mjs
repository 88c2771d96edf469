// A daemon in a place of its own.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, writeFileSync, rmSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const root = resolve(import.meta.dirname, "../..");
const binary = resolve(process.env.UNISONO ?? join(root, "target/debug/unisono"));
export const example = join(root, "examples/orders-migration.jsonl");

export class Place {
  constructor(config = "") {
    this.path = mkdtempSync(join(tmpdir(), "unisono-ui-"));
    this.visitors = [];
    mkdirSync(join(this.path, "config"));
    const fixed = '[compaction]\nsummarisers = ["extractive"]\n';
    writeFileSync(join(this.path, "config/unisono.toml"), fixed + config);
    this.env = {
      PATH: process.env.PATH,
      HOME: this.path,
      TEST_KEY: "sk-test-0000",
      XDG_CONFIG_HOME: join(this.path, "settings"),
      XDG_DATA_HOME: join(this.path, "data"),
    };
  }

  call(...args) {
    const options = { cwd: this.path, env: this.env, encoding: "utf8" };
    return JSON.parse(execFileSync(binary, [...args, "--json"], options));
  }

  // Starts the daemon and waits until it says where its page is. Started again, it has the same address.
  async serve() {
    const args = ["serve", "--bind", this.address ? new URL(this.address).host : "127.0.0.1:0"];
    const options = { cwd: this.path, env: this.env, stdio: ["ignore", "ignore", "pipe"] };
    this.daemon = spawn(binary, args, options);
    const lines = createInterface({ input: this.daemon.stderr });
    const said = [];
    for await (const line of lines) {
      said.push(line);
      const link = line.match(/(http:\/\/\S+\/login\?code=\S+)/);
      if (link) {
        // The rest is read as well, so that the daemon never waits for a reader.
        lines.on("line", () => {});
        this.link = link[1];
        this.address = new URL(link[1]).origin;
        return this;
      }
    }
    throw new Error(`the daemon did not start:\n${said.join("\n")}`);
  }

  get token() {
    return readFileSync(join(this.path, "settings/unisono/token"), "utf8").trim();
  }

  // What the daemon answers to a program.
  async ask(method, path, body) {
    const headers = { Authorization: `Bearer ${this.bearer ?? this.token}` };
    if (body) headers["Content-Type"] = "application/json";
    const options = { method, headers, body: body && JSON.stringify(body) };
    const reply = await fetch(this.address + path, options);
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }

  // Ends the daemon; its store stays.
  async halt() {
    if (this.daemon && this.daemon.exitCode === null) {
      const gone = new Promise((done) => this.daemon.once("exit", done));
      this.daemon.kill("SIGTERM");
      await gone;
    }
  }

  async stop() {
    for (const context of this.visitors) await context.close();
    await this.halt();
    rmSync(this.path, { recursive: true, force: true });
  }
}

// Visits a place while its daemon runs.
export async function withDaemon(place, visit) {
  try {
    await visit(await place.serve());
  } finally {
    await place.stop();
  }
}
