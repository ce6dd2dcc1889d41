// Drives a server of a language model and an embedder, with room for 8 waiting requests, with the unmodified openai package of npm.
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 600_000 });
const done = [];

function check(name, condition, got) {
    if (!condition) {
        console.error(`FAIL ${name}:`, got);
        process.exit(1);
    }
    done.push(name);
}

async function refused(name, kind, call) {
    try {
        check(name, false, await call());
    } catch (error) {
        check(name, error.constructor === kind, error);
        return error;
    }
}

const model = "lm";
const messages = [{ role: "user", content: "Describe a person." }];

// Completions and chats.
let r = await client.completions.create({ model, prompt: ["one", "two"], max_tokens: 2, logprobs: 3, temperature: 0 });
check("completions", r.choices.length === 2 && r.choices[1].logprobs.token_logprobs.length === 2 && r.usage.completion_tokens === 4, r);
check("request id", r._request_id?.length > 0, r);
r = await client.chat.completions.create({ model, messages, max_completion_tokens: 3, logprobs: true, top_logprobs: 2 });
check("chat", r.choices[0].message.role === "assistant" && r.choices[0].logprobs.content[0].top_logprobs.length === 2, r);
const listed = [];
for await (const m of client.models.list()) listed.push(m.id);
check("models", listed.join() === "lm,embedder" && (await client.models.retrieve("lm")).id === "lm", listed);

// Streams.
let text = "", last;
for await (const chunk of await client.completions.create({ model, prompt: "Once", max_tokens: 8, temperature: 0, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.text ?? "";
    last = chunk;
}
r = await client.completions.create({ model, prompt: "Once", max_tokens: 8, temperature: 0 });
check("stream", text === r.choices[0].text && last.usage.completion_tokens === r.usage.completion_tokens, [text, r]);
const runner = client.chat.completions.stream({ model, messages, max_tokens: 6, temperature: 0 });
let deltas = "";
runner.on("content", (delta) => (deltas += delta));
check("chat stream", (await runner.finalContent()) === deltas && (await runner.finalChatCompletion()).choices[0].finish_reason, deltas);
const left = await client.completions.create({ model, prompt: "Once", max_tokens: 200, stream: true, ignore_eos: true });
for await (const _ of left) break;
check("stream left", left.controller.signal.aborted, left);

// Structured answers, which zod parses.
const Person = z.object({
    name: z.string().regex(/^[A-Z][a-z]{2,8}$/),
    born: z.string().regex(/^\d{4}-\d{2}$/),
    age: z.number().int().min(0).max(120),
    kind: z.enum(["adult", "child"]),
    nick: z.string().max(5).nullable(),
    homes: z.array(z.object({ street: z.literal("Main Street"), number: z.number().int().min(1).max(9) })).max(2),
});
const form = { model, messages, temperature: 1.5, max_tokens: 300, response_format: zodResponseFormat(Person, "person") };
for (let seed = 0; seed < 5; seed++) {
    r = await client.chat.completions.parse({ ...form, seed });
    check("parse", Person.safeParse(r.choices[0].message.parsed).success && r.choices[0].finish_reason === "stop", r.choices[0]);
}
r = await client.chat.completions.stream({ ...form, seed: 7 }).finalChatCompletion();
check("stream parsed", Person.safeParse(r.choices[0].message.parsed).success, r.choices[0]);
const Move = z.object({ to: z.enum(["left", "right"]), steps: z.number().int().min(1).max(9) });
const tools = [zodFunction({ name: "move", parameters: Move }), zodFunction({ name: "rest", parameters: z.object({ hours: z.number().int().min(1).max(3) }) })];
r = await client.chat.completions.parse({ model, messages, tools, tool_choice: { type: "function", function: { name: "move" } }, max_tokens: 100 });
check("tool", Move.safeParse(r.choices[0].message.tool_calls[0].function.parsed_arguments).success && r.choices[0].finish_reason === "tool_calls", r.choices[0]);
r = await client.chat.completions.parse({ model, messages, tools, tool_choice: "required", max_tokens: 100, seed: 2 });
check("tools", ["move", "rest"].includes(r.choices[0].message.tool_calls[0].function.name), r.choices[0]);
const cut = await refused("cut", OpenAI.LengthFinishReasonError ?? (await import("openai/error")).LengthFinishReasonError, () => client.chat.completions.parse({ ...form, max_tokens: 3 }));
check("cut", cut.message.includes("length"), cut);

// Decisions.
const asked = await client.decisions.create({
    model, input: [{ type: "message", role: "user", content: "The parcel came late." }], questions: [
        { type: "predicate", instructions: "Is it about a parcel?", name: "parcel" },
        { type: "choice", instructions: "Which?", choices: [{ value: "late" }, { value: true }] },
        { type: "score", instructions: "How late?", levels: [{ label: "a bit" }, { label: "very" }] }],
});
const [predicate, choice, score] = asked.answers;
check("predicate", predicate.name === "parcel" && predicate.probability > 0 && predicate.probability < 1, asked);
check("choice", ["late", true].includes(choice.choice) && Math.abs(choice.probabilities[0].probability + choice.probabilities[1].probability - 1) < 1e-6, asked);
check("score", Math.abs(score.score - score.probabilities[1].probability) < 1e-6 && asked.usage.total_tokens > 0, asked);

// Embeddings: without a format the package asks for base64 and decodes it.
const input = ["The cat sat on the mat.", "Stocks fell."];
const decoded = await client.embeddings.create({ model: "embedder", input });
const floats = await client.embeddings.create({ model: "embedder", input, encoding_format: "float" });
check("embeddings", decoded.data.every((d, i) => d.embedding.length === 256 && d.embedding.every((x, k) => x === Math.fround(floats.data[i].embedding[k]))), decoded.data[0]);
check("dimensions", (await client.embeddings.create({ model: "embedder", input, dimensions: 8 })).data[0].embedding.length === 8);

// Errors.
for (const [kind, status, code, call] of [
    [OpenAI.BadRequestError, 400, "invalid_value", () => client.chat.completions.create({ model, messages: [] })],
    [OpenAI.BadRequestError, 400, "context_length_exceeded", () => client.completions.create({ model, prompt: Array(100_000).fill(5) })],
    [OpenAI.BadRequestError, 400, "invalid_value", () => client.completions.create({ model, prompt: "x", temperature: -1, stream: true })],
    [OpenAI.AuthenticationError, 401, "invalid_api_key", () => client.withOptions({ apiKey: "wrong" }).models.list()],
    [OpenAI.PermissionDeniedError, 403, "admin_key_required", () => client.post("/models/lm/unload")],
    [OpenAI.NotFoundError, 404, "model_not_found", () => client.embeddings.create({ model: "nobody", input })],
]) {
    const error = await refused(`${status}`, kind, call);
    check(`${status}`, error.status === status && error.code === code && error.requestID, error);
}

// Retries, and no answer in time.
const long = (which, i) => which.completions.create({ model, prompt: Array(400).fill(10 + i), max_tokens: 40, temperature: 0, ignore_eos: true });
// some calls what returns something or nothing until it returns something.
async function some(call) {
    for (let i = 0; i < 100; i++) {
        const got = await call(i);
        if (got) return got;
    }
}
// Behind others a request waits for longer than a nanosecond; whether others are there before it depends on the machine.
const late = await some(async () => {
    const others = Array.from({ length: 6 }, (_, i) => long(client, i));
    const promised = client.completions.create({ model, prompt: "Once", max_tokens: 1 }, { headers: { "X-Llm-D-Slo-Ttft-Ms": "0.000001" }, maxRetries: 3 });
    const [asked] = await Promise.allSettled([promised, ...others]);
    return asked.reason;
});
check("504", late?.constructor === OpenAI.InternalServerError && late.status === 504 && late.code === "deadline_exceeded" && late.headers.get("x-should-retry") === "false", late);
const many = (which) => Promise.allSettled(Array.from({ length: 48 }, (_, i) => long(which, i)));
const turned = await some(async () => {
    const reasons = (await many(client)).filter((p) => p.status === "rejected").map((p) => p.reason);
    return reasons.length > 0 ? reasons : undefined;
});
check("429", turned?.every((e) => e instanceof OpenAI.RateLimitError && Number(e.headers.get("retry-after")) >= 1), turned?.[0]);
let tries = 0;
const patient = client.withOptions({ maxRetries: 50, fetch: (...request) => (tries++, fetch(...request)) });
const retried = await some(async (i) => {
    const answers = await many(patient);
    check("retried to the end", answers.every((p) => p.value?.usage.completion_tokens === 40), answers);
    return tries > 48 * (i + 1);
});
check("retries", retried, tries);
await refused("timeout", OpenAI.APIConnectionTimeoutError, () => client.completions.create({ model, prompt: "Once", max_tokens: 200, ignore_eos: true }, { timeout: 1 }));
await refused("nobody listens", OpenAI.APIConnectionError, () => client.withOptions({ baseURL: "http://127.0.0.1:9/v1" }).models.list());
const raw = await client.completions.create({ model, prompt: "Once", max_tokens: 1 }, { headers: { "X-Request-Id": "mine-7" } }).withResponse();
check("withResponse", raw.response.status === 200 && raw.request_id === "mine-7" && raw.data.choices.length === 1, raw);

const version = JSON.parse(await (await import("node:fs/promises")).readFile(new URL("./node_modules/openai/package.json", import.meta.url))).version;
console.log(`openai ${version} on node ${process.versions.node}: ${done.length} checks passed: ${[...new Set(done)].join(", ")}`);
