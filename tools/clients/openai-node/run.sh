#!/bin/bash
# openai (Node): completions, chats parsed by zod, streams, decisions, embeddings, errors, retries.
. "$(dirname "$0")/../group.bash"
command -v node >/dev/null && command -v npm >/dev/null || tools/build/setup.sh nodejs npm
cp "$here"/package*.json "$here/client.mjs" "$build"
if ! cmp -s "$here/package-lock.json" "$build/installed"; then
    fetch() { (cd "$build" && npm ci --silent --no-audit --no-fund); }
    fetch || fetch || { npm view openai version || unreached "the npm registry"; exit 1; }
    cp "$here/package-lock.json" "$build/installed"
fi
models lm embedder -- --max-num-queued-reqs 8
node "$build/client.mjs" "$url/v1" "$key"
