#!/bin/sh
# Runs unmodified clients (openai, lm-eval) against a served demo model. Needs bin/prefillonly.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build
venv=${CLIENTS_VENV:-build/clients}
if ! [ -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q openai==3.52.0 "lm-eval[api]==0.4.13" transformers==5.5.4
fi
port=${PORT:-8123}
export PREFILLONLY_API_KEY=clients-test-key
bin/prefillonly serve --port "$port" >build/clients.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
sleep 1
kill -0 $server || { cat build/clients.log; exit 1; }
"$venv/bin/python" tools/clients/openai_client.py "http://127.0.0.1:$port/v1" "$PREFILLONLY_API_KEY"
OPENAI_API_KEY=$PREFILLONLY_API_KEY "$venv/bin/python" tools/clients/lm_eval_client.py "http://127.0.0.1:$port/v1/completions"
