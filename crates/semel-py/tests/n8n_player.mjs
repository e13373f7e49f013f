// Plays an n8n workflow: the nodes that our template uses, with their expressions as JavaScript,
// which they are in n8n, too. Prints what each node gave. `node n8n_player.mjs FILE VARIABLES`.

import { readFileSync } from "node:fs";

const workflow = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { token, env, order } = JSON.parse(process.argv[3]);
const nodes = new Map(workflow.nodes.map((node) => [node.name, node]));
const given = new Map();

// A text that begins with `=` is a template; one expression alone keeps its type.
function evaluate(text, $json) {
  if (typeof text !== "string" || !text.startsWith("=")) return text;
  const $ = (name) => ({ item: { json: given.get(name) } });
  const run = (code) => new Function("$json", "$env", "$", `return (${code})`)($json, env, $);
  const alone = text.match(/^=\{\{((?:(?!\}\}).)*)\}\}$/s);
  if (alone) return run(alone[1]);
  return text.slice(1).replace(/\{\{(.*?)\}\}/gs, (_, code) => run(code));
}

async function request({ parameters: asked, credentials }, $json) {
  const headers = { "content-type": "application/json" };
  if (credentials) headers.authorization = `Bearer ${token}`;
  for (const header of asked.headerParameters?.parameters ?? []) {
    headers[header.name] = evaluate(header.value, $json);
  }
  const body = evaluate(asked.jsonBody, $json);
  const answer = await fetch(evaluate(asked.url, $json), { method: asked.method, headers, body });
  const said = await answer.json();
  if (answer.ok) return [said, 0];
  return [{ error: `${answer.status} ${JSON.stringify(said)}` }, 1];
}

function choose({ parameters }, $json) {
  const holds = (rule) =>
    rule.conditions.conditions.every((one) => evaluate(one.leftValue, $json) === one.rightValue);
  const rules = parameters.rules.values;
  const at = rules.findIndex(holds);
  return [$json, at < 0 ? rules.length : at];
}

async function give(node, $json) {
  switch (node.type) {
    case "n8n-nodes-base.manualTrigger":
      return [{}, 0];
    case "n8n-nodes-base.set": {
      const said = node.parameters.assignments.assignments.map((one) => [one.name, one.value]);
      return [{ ...Object.fromEntries(said), ...order }, 0];
    }
    case "n8n-nodes-base.switch":
      return choose(node, $json);
    case "n8n-nodes-base.httpRequest":
      return request(node, $json);
    default:
      throw new Error(`${node.type} is not played`);
  }
}

async function play(name, $json) {
  const node = nodes.get(name);
  const [json, output] = await give(node, $json);
  if (output === 1 && node.type.endsWith("httpRequest") && node.onError !== "continueErrorOutput") {
    throw new Error(`${name}: ${json.error}`);
  }
  given.set(name, json);
  for (const next of workflow.connections[name]?.main[output] ?? []) await play(next.node, json);
}

await play("Start", {});
console.log(JSON.stringify(Object.fromEntries(given)));
