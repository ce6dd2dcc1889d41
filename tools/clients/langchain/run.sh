#!/bin/bash
# langchain-openai: chats, structured output, embeddings.
. "$(dirname "$0")/../group.bash"
venv
models lm embedder
"$python" $here/client.py "$url" "$key"
