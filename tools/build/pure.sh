#!/bin/sh
# Prints the packages with tests that need no cgo, neither by themselves nor by what they import.
set -eu
cd "$(dirname "$0")/../.."
go=$(tools/build/go.sh)
cgo=$("$go" list -deps -test -f '{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}' ./... | sed 's/ .*//' | sort -u)
"$go" list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... |
    awk -v cgo="$cgo" '
        BEGIN { n = split(cgo, list); for (i = 1; i <= n; i++) bad[list[i]] }
        $1 ~ /\.test$/ { for (i = 2; i <= NF; i++) if ($i in bad) next; sub(/\.test$/, "", $1); print $1 }'
