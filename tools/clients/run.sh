#!/bin/sh
# Runs unmodified clients: openai and lm-eval against a served demo model, openai and cohere against an embedder, a ranker and a
# classifier, litellm, langchain-openai and instructor against both kinds, huggingface_hub against an embedder and a classifier, tritonclient and perf_analyzer against a network. Needs
# bin/prefillonly.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build
venv=${CLIENTS_VENV:-build/clients}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q openai==3.52.0 jsonschema cohere==7.3.1 huggingface_hub numpy "lm-eval[api]==0.4.13" transformers==5.5.4 "tritonclient[http]==2.73.0" onnx==1.23.2 pillow==13.0.0
port=${PORT:-8123}
key=clients-test-key
server=

# stop: ends the server, if one runs
stop() {
    [ -z "$server" ] || ! kill "$server" 2>/dev/null || wait "$server" || true
    server=
}
trap stop EXIT

# serve LOG ARGUMENTS...: starts a server in the place of the one that runs
serve() {
    log=$1
    shift
    stop
    bin/prefillonly serve --port "$port" "$@" >"$log" 2>&1 &
    server=$!
    sleep 1
    kill -0 $server || { cat "$log"; exit 1; }
}

export PREFILLONLY_API_KEY=$key
serve build/clients.log
unset PREFILLONLY_API_KEY
"$venv/bin/python" tools/clients/openai_client.py "http://127.0.0.1:$port/v1" "$key"
"$venv/bin/python" tools/clients/structured_client.py "http://127.0.0.1:$port/v1" "$key"
OPENAI_API_KEY=$key "$venv/bin/python" tools/clients/lm_eval_client.py "http://127.0.0.1:$port/v1/completions"

"$venv/bin/python" tools/clients/make_scorers.py engine/demo/files build/scorers
printf '%s\n' "$key" >build/scorers.keys
{
    echo models:
    for m in embedder ranker classifier; do echo "- {path: $PWD/build/scorers/$m, keep: always}"; done
} >build/scorers.yaml
serve build/scorers.log --config build/scorers.yaml --api-key-file build/scorers.keys
"$venv/bin/python" tools/clients/scoring_client.py "http://127.0.0.1:$port" "$key"
# Packages that want an older openai.
adapters=${ADAPTERS_VENV:-build/clients-adapters}
[ -x "$adapters/bin/python" ] || python3 -m venv "$adapters"
"$adapters/bin/pip" install -q litellm==1.106.2 langchain-openai==1.7.3 instructor==1.17.0
{
    echo models:
    echo "- {path: $PWD/engine/demo/files, name: lm, keep: always}"
    for m in embedder ranker; do echo "- {path: $PWD/build/scorers/$m, keep: always}"; done
} >build/adapters.yaml
serve build/adapters.log --config build/adapters.yaml --api-key-file build/scorers.keys
LITELLM_LOCAL_MODEL_COST_MAP=True "$adapters/bin/python" tools/clients/adapters_client.py "http://127.0.0.1:$port" "$key" lm
for m in embedder classifier; do
    serve build/scorers.log "$PWD/build/scorers/$m" --api-key-file build/scorers.keys
    "$venv/bin/python" tools/clients/tei_client.py $m "http://127.0.0.1:$port" "$key"
done

"$venv/bin/python" tools/clients/make_network.py build/pixels.onnx
printf '%s\n%s @admin\n' "$key" "$key-admin" >build/clients.keys
cat >build/clients.yaml <<END
models:
- path: $PWD/build/pixels.onnx
  keep: on-demand
  image: {order: BGR, letterbox: 114}
END
serve build/clients-networks.log --config build/clients.yaml --api-key-file build/clients.keys
"$venv/bin/python" tools/clients/triton_client.py "127.0.0.1:$port" "$key" "$key-admin"
tools/clients/perf_analyzer.sh "$venv/bin/pip" "127.0.0.1:$port" "$key"
