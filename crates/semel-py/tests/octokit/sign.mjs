// Signs with GitHub's own library: `{secret, body}` on stdin, the signature on stdout.
import { sign, verify } from "@octokit/webhooks-methods";

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
const { secret, body } = JSON.parse(text);
const signature = await sign(secret, body);
if (!(await verify(secret, body, signature))) {
  throw new Error("the library does not verify its own signature");
}
process.stdout.write(signature);
