#!/bin/bash
# openai-go: test/contract, a module of its own.
. "$(dirname "$0")/../group.bash"
go_tests test/contract
