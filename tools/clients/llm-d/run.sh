#!/bin/bash
# llm-d's subscriber to KV events and its index of them: test/llmd, a module of its own.
. "$(dirname "$0")/../group.bash"
go_tests test/llmd
