# Sourced by what measures servers: $binary serves, $work is a directory of this run, and both are gone when it ends.
binary=${PREFILLONLY:-bin/prefillonly}
work=$(mktemp -d)
servers=()
stop() {
  for s in "${servers[@]}"; do kill "$s" 2>/dev/null && wait "$s" || true; done
  servers=()
}
trap 'stop; rm -rf "$work"' EXIT

# launch PORT PATH COMMAND...: a server that answers at the path.
launch() {
  local port=$1 path=$2
  shift 2
  "$@" &
  servers+=($!)
  for _ in $(seq 1500); do
    curl -fs "localhost:$port$path" >/dev/null && return
    kill -0 "${servers[-1]}" 2>/dev/null || break
    sleep 0.2
  done
  echo "the server on port $port does not get ready" >&2
  exit 1
}

# serve PORT MODELS OR FLAGS...: a server that is ready.
serve() { launch "$1" /ready "$binary" serve "${@:2}" --port "$1" --no-access-log --log-level warn; }

# serve_models PORT "{a model's entry}"... [-- FLAGS...]: a server of models as a configuration has them.
serve_models() {
  local port=$1 entries=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do entries+=("$1"); shift; done
  { echo models:; printf -- '- %s\n' "${entries[@]}"; } >"$work/$port.yaml"
  serve "$port" --config "$work/$port.yaml" --video-state "$work/$port" "${@:2}"
}

# network_entry NETWORK.onnx: its entry, with DECODER=yolox. `prefillonly profile` measures it better than a start beside other models: do that before.
network_entry() { echo "{path: $(realpath "$1"), name: network, keep: always, decoder: ${DECODER:-yolox}}"; }
