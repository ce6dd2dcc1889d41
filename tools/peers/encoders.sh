#!/bin/sh
# Times 1,000 short texts by this engine, below its HTTP and tokenizing, and by sentence-transformers, one after the other,
# TIMES times (2); tools/peers/encoders_http.py does so through HTTP. See tools/peers/encoders_torch.py for what its Python needs.
#
#     tools/peers/encoders.sh [SHAPE ...]     minilm-l6, bert-base, modernbert; all of them
set -e
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
for shape in ${*:-minilm-l6 bert-base modernbert}; do
	for _ in $(seq "${TIMES:-2}"); do
		go test ./engine/encoder -run xxx -bench "Texts/$shape\$" -benchtime 3x -count 1 | grep texts/s
		"$python" tools/peers/encoders_torch.py "$shape" 2>/dev/null | grep texts/s
	done
done
