#!/bin/bash
# openai (Python): completions, chats, decisions, structured answers, embeddings, scores, classes; files and batches; errors, retries and timeouts.
. "$(dirname "$0")/../group.bash"
venv
models lm
"$python" $here/completions.py "$url/v1" "$key"
"$python" $here/structured.py "$url/v1" "$key"
stop
models embedder ranker classifier
"$python" $here/embeddings.py "$url/v1" "$key"
stop
models lm -- --batch-dir "$work/batches"
"$python" $here/batches.py "$url/v1" "$key" "$admin"
stop
models lm -- --max-num-queued-reqs 8 --drain-grace-period 90s --drain-timeout 120s
"$python" $here/failures.py "$url/v1" "$key" "${servers[-1]}"
