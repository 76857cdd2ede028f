// Opens every page in a browser, light and dark, wide and narrow, and looks for what a person
// would stumble over: accessibility violations (axe-core), console errors, requests that leave the
// origin, pages wider than a phone, controls that the keyboard cannot reach.
//
// node check.mjs [--screenshots DIR] [--browser PATH] BASE_URL [PATH…]
//
// Paths come from the arguments, or one a line from standard input where none are given.

import { createRequire } from "node:module";
import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);

const SIZES = [
  { name: "wide", width: 1280, height: 900 },
  { name: "phone", width: 390, height: 844 },
];
const THEMES = ["light", "dark"];
const BROWSER_ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

function parseArguments(list) {
  const options = { browser: "/usr/bin/chromium", screenshots: null, rest: [] };
  for (let i = 0; i < list.length; i += 1) {
    if (list[i] === "--screenshots") options.screenshots = list[(i += 1)];
    else if (list[i] === "--browser") options.browser = list[(i += 1)];
    else options.rest.push(list[i]);
  }
  const [base, ...paths] = options.rest;
  return { ...options, base, paths };
}

async function standardInput() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8").split("\n").map((line) => line.trim()).filter(Boolean);
}

/** A file name for a page: its path, then the words of its query, shortened. */
function fileName(pagePath, size, theme) {
  const words = pagePath.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
  return `${words || "overview"}-${size}-${theme}.png`;
}

/** What a person would stumble over on this page, in words. */
async function problemsOf(page, axe, isPhone) {
  await page.evaluate(axe);
  const { violations, overflow, unreachable } = await page.evaluate(async () => {
    const found = await window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    const root = document.documentElement;
    const controls = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, pre")];
    return {
      violations: found.violations.map((violation) => ({
        id: violation.id,
        help: violation.help,
        where: violation.nodes.slice(0, 4).map((node) => `${node.target.join(" ")}: ${node.any.map((a) => a.message).join("; ")}`),
      })),
      overflow: root.scrollWidth > root.clientWidth ? `${root.scrollWidth} > ${root.clientWidth}` : null,
      unreachable: controls.filter((control) => control.tabIndex < 0).map((control) => control.outerHTML.slice(0, 120)),
    };
  });
  const problems = violations.map((v) => `${v.id}: ${v.help}\n      ${v.where.join("\n      ")}`);
  if (overflow) problems.push(`wider than the ${isPhone ? "phone" : "window"}: ${overflow}`);
  problems.push(...unreachable.map((html) => `the keyboard cannot reach ${html}`));
  return problems;
}

/** Follows the tab key from the top: the first stop is the skip link, and each stop is seen. */
async function focusProblems(page) {
  const problems = [];
  await page.evaluate(() => document.activeElement?.blur());
  for (let stop = 0; stop < 12; stop += 1) {
    await page.keyboard.press("Tab");
    const seen = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const style = getComputedStyle(element);
      return { html: element.outerHTML.slice(0, 80), outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0, skip: element.classList.contains("skip") };
    });
    if (!seen) break;
    if (stop === 0 && !seen.skip) problems.push(`the first stop of the tab key is ${seen.html}`);
    if (!seen.outline) problems.push(`no visible focus on ${seen.html}`);
  }
  return problems;
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  if (!options.base) {
    console.error("usage: node check.mjs [--screenshots DIR] [--browser PATH] BASE_URL [PATH…]");
    process.exit(2);
  }
  const paths = options.paths.length > 0 ? options.paths : await standardInput();
  if (paths.length === 0) {
    console.error("no pages to check");
    process.exit(2);
  }
  const origin = new URL(options.base).origin;
  const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
  if (options.screenshots) await mkdir(options.screenshots, { recursive: true });

  const browser = await chromium.launch({ executablePath: options.browser, args: BROWSER_ARGUMENTS });
  let opened = 0;
  let failures = 0;
  for (const theme of THEMES) {
    for (const size of SIZES) {
      // Playwright's own world runs axe-core; the page's policy forbids scripts and stays in force.
      const context = await browser.newContext({
        viewport: { width: size.width, height: size.height },
        colorScheme: theme,
        bypassCSP: false,
      });
      for (const pagePath of paths) {
        const page = await context.newPage();
        const problems = [];
        page.on("console", (message) => {
          // A page that says "not found" is reported by the browser as a failed load of itself.
          if (message.location().url === page.url() && message.text().startsWith("Failed to load resource")) return;
          if (["error", "warning"].includes(message.type())) problems.push(`console: ${message.text()}`);
        });
        page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
        page.on("request", (request) => {
          const url = new URL(request.url());
          if (url.protocol !== "data:" && url.origin !== origin) problems.push(`left the origin: ${request.url()}`);
        });
        const response = await page.goto(new URL(pagePath, options.base).href, { waitUntil: "load" });
        if (!response || response.status() >= 500) problems.push(`answered ${response?.status()}`);
        problems.push(...(await problemsOf(page, axe, size.name === "phone")));
        if (size.name === "wide" && theme === "light") problems.push(...(await focusProblems(page)));
        if (options.screenshots) {
          await page.evaluate(() => {
            document.activeElement?.blur();
            window.scrollTo(0, 0);
          });
          await page.screenshot({
            path: path.join(options.screenshots, fileName(pagePath, size.name, theme)),
            fullPage: true,
          });
        }
        await page.close();
        opened += 1;
        if (problems.length > 0) {
          failures += 1;
          console.log(`FAIL ${pagePath} (${size.name}, ${theme})\n    ${[...new Set(problems)].join("\n    ")}`);
        }
      }
      await context.close();
    }
  }
  await browser.close();
  console.log(`${opened} pages opened, ${failures} with problems`);
  process.exit(failures > 0 ? 1 : 0);
}

await main();
