#!/bin/bash
# openapi-spec-validator reads the document that the server tells of itself, and schemathesis asks the server what the document says: the same
# requests in every run.
. "$(dirname "$0")/../group.bash"
venv
models lm embedder ranker classifier
document=$work/openapi.json
curl -fsS -H "Authorization: Bearer $key" "$url/openapi.json" >"$document"
"$build/venv/bin/openapi-spec-validator" --subschema-errors all "$document"
echo "openapi-spec-validator: 1 checks passed"
cp "$here/schemathesis.toml" "$work/"
report=$(pwd)/$build/report.xml
began=$PWD
cd "$work"
"$began/$build/venv/bin/schemathesis" run openapi.json --url "$url" -H "Authorization: Bearer $key" --report junit --report-junit-path "$report" --no-color
cd "$began"
tests=$(grep -oE '<testsuites? [^>]*tests="[0-9]+"' "$report" | head -n 1 | grep -oE '[0-9]+"$' | tr -d '"')
echo "schemathesis: $tests checks passed"
curl -fsS "$url/ready" >/dev/null
