// Type-checks the files in dashboards/grafana against Grafana's published types: each is pasted into
// a TypeScript file as `{...} satisfies T`. Says how many problems each file has; a file with a wrong
// word must have one, or the check means nothing.
//
// usage: node check.mjs FOLDER

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2];

// The package's enums refuse plain words, and its queries carry a marker method.
const HEAD = `
import type { Dashboard, Panel } from "@grafana/grafana-foundation-sdk/dashboard";
import type { Dataquery } from "@grafana/grafana-foundation-sdk/prometheus";
import type { Query, Rule, RuleGroup } from "@grafana/grafana-foundation-sdk/alerting";
type Lit<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Lit<U>[]
  : T extends object ? { [K in keyof T]: Lit<T[K]> } : T;
type Source = { type: string; uid: string };
type PromQuery = Lit<Omit<Dataquery, "_implementsDataqueryVariant">>;
type OwnPanel = Lit<Omit<Panel, "targets">> & { targets: PromQuery[] };
type OwnDashboard = Lit<Omit<Dashboard, "panels">> & { panels: OwnPanel[] };
type Expression = { refId: string; datasource: Source; type: "math" | "threshold"; expression: string;
  conditions?: { evaluator: { type: "gt" | "lt"; params: number[] } }[] };
type OwnQuery = Omit<Query, "model"> & { model: PromQuery | Expression };
type OwnRule = Lit<Omit<Rule, "data">> & { data: OwnQuery[] };
type OwnGroup = Omit<RuleGroup, "rules"> & { rules: OwnRule[] };
`;

const read = (name) => fs.readFileSync(path.join(folder, name), "utf8");
const dashboards = ["retrylens-overview", "retrylens-service", "retrylens-self"];
const overview = read("retrylens-overview.json");
const rules = read("retrylens-alerts-api.json");
const change = (text, from, to) => {
  if (!text.includes(from)) throw new Error(`nothing to spoil: ${from}`);
  return text.replace(from, to);
};
// Name, JSON, type, whether it is right.
const cases = [
  ...dashboards.map((name) => [name, read(`${name}.json`), "OwnDashboard", true]),
  ["rules", rules, "OwnGroup[]", true],
  ["spoiled-legend", change(overview, '"legendFormat"', '"legend"'), "OwnDashboard", false],
  ["spoiled-unit", change(overview, '"unit": "reqps"', '"unit": 5'), "OwnDashboard", false],
  ["spoiled-tooltip", change(overview, '"graphTooltip": 1', '"graphTooltip": 7'), "OwnDashboard", false],
  ["spoiled-no-data", change(rules, '"noDataState": "OK"', '"noDataState": "Ok"'), "OwnGroup[]", false],
  ["spoiled-key", change(rules, '"keep_firing_for"', '"keepFiringFor"'), "OwnGroup[]", false],
  ["spoiled-evaluator", change(rules, '"type": "gt"', '"type": "above"'), "OwnGroup[]", false],
];

const sources = new Map(
  cases.map(([name, json, type]) => [
    path.join(here, `${name}.ts`),
    `${HEAD}export const it = ${json.trim()} satisfies ${type};\n`,
  ]),
);
const options = {
  strict: true, noEmit: true, skipLibCheck: true, types: [],
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ES2022,
};
const host = ts.createCompilerHost(options);
const { fileExists, readFile, getSourceFile } = host;
host.fileExists = (name) => sources.has(name) || fileExists(name);
host.readFile = (name) => sources.get(name) ?? readFile(name);
host.getSourceFile = (name, target, ...rest) =>
  sources.has(name) ? ts.createSourceFile(name, sources.get(name), target) : getSourceFile(name, target, ...rest);
const program = ts.createProgram([...sources.keys()], options, host);

let failed = false;
for (const [name, , , isRight] of cases) {
  const file = program.getSourceFile(path.join(here, `${name}.ts`));
  const found = ts.getPreEmitDiagnostics(program, file);
  const asExpected = isRight ? found.length === 0 : found.length > 0;
  failed ||= !asExpected;
  console.log(`${asExpected ? "ok" : "FAILED"}: ${name}, ${found.length} problems`);
  if (!asExpected) {
    for (const one of found) console.log(ts.flattenDiagnosticMessageText(one.messageText, "\n"));
  }
}
process.exit(failed ? 1 : 0);
