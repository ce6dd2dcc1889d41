#!/bin/bash
# Prometheus, as Debian packages it, reads /metrics of a server with a key; promtool lints the page; and every query of the Grafana
# dashboard is asked of that Prometheus, which must have an answer to those that concern this server.
. "$(dirname "$0")/../group.bash"
programs=$(realpath "$build")/root/usr/bin
if ! [ -x "$programs/promtool" ]; then
    mkdir -p "$work/deb" && chmod 755 "$work" "$work/deb"
    (cd "$work/deb" && apt-get -q download prometheus >/dev/null 2>&1) || unreached "Debian's package of Prometheus"
    dpkg-deb -x "$work"/deb/prometheus_*.deb "$build/root"
fi
models lm
for _ in 1 2 3; do
    curl -fsS -H "Authorization: Bearer $key" "$url/v1/completions" -H 'Content-Type: application/json' -d '{"prompt": "Is it?", "max_tokens": 1}' >/dev/null
done

# Names with a colon are vLLM's, as is one that ends in _total; promtool says 3 of a page that it only complains of.
curl -fsS -H "Authorization: Bearer $key" "$url/metrics" >"$work/page"
status=0
"$programs/promtool" check metrics <"$work/page" >"$work/lint" 2>&1 || status=$?
[ "$status" = 0 ] || [ "$status" = 3 ]
! grep -vE "should not contain ':'|^vllm:iteration_tokens_total .*\"_total\" suffix|^DCGM_" "$work/lint" >&2
echo "promtool: 1 checks passed"

printf '%s' "$key" >"$work/key"
cat >"$work/prometheus.yml" <<END
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: prefillonly
  authorization: {credentials_file: $work/key}
  static_configs: [{targets: ["127.0.0.1:$port"]}]
END
"$programs/promtool" check config "$work/prometheus.yml" >/dev/null
listen=127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$programs/prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="$listen" --log.level=warn &
servers+=($!)
python3 "$here/queries.py" "http://$listen" configs/grafana.json
