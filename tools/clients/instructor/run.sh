#!/bin/bash
# instructor: chats parsed into pydantic models.
. "$(dirname "$0")/../group.bash"
venv
models lm
"$python" $here/client.py "$url" "$key"
