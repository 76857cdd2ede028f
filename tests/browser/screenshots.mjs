// Makes the pictures of the README from a served demo: node screenshots.mjs BASE_URL FOLDER,
// with what the demo printed on standard input.

import { mkdir } from "node:fs/promises";
import path from "node:path";
import { chromium } from "playwright-core";

const [base, folder] = process.argv.slice(2);
let greeting = "";
for await (const chunk of process.stdin) greeting += chunk;
const addresses = greeting.match(/http:\/\/\S+/g) ?? [];
const find = (part) => {
  const address = addresses.find((candidate) => candidate.includes(part));
  if (!address) throw new Error(`the demo printed no address with ${part}`);
  return address;
};

const PICTURES = [
  { name: "overview-light", address: find("/?from="), width: 1280, height: 1040, theme: "light" },
  { name: "triage-light", address: find("/triage?service=checkout"), width: 1280, height: 1180, theme: "light" },
  { name: "operation-dark", address: find("/operations/"), width: 1280, height: 900, theme: "dark" },
  { name: "triage-phone-dark", address: find("/triage?service=catalog-sync"), width: 390, height: 844, theme: "dark" },
];

await mkdir(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
for (const { name, address, width, height, theme } of PICTURES) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme });
  await page.goto(new URL(address, base).href, { waitUntil: "load" });
  await page.screenshot({ path: path.join(folder, `${name}.png`) });
  await page.close();
  console.log(`${name}.png: ${address}`);
}
await browser.close();
