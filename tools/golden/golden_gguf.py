#!/usr/bin/env python3
"""Writes types.gguf of engine/weights/gguf's testdata: blocks of every type of random bytes, and beside each the float32 values that
the package gguf (llama.cpp's own, `gguf.quants.dequantize`) makes of them; and metadata of every type.

    python3 tools/golden/golden_gguf.py            needs gguf, numpy
"""

import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

PATH = pathlib.Path(__file__).parents[2] / "engine/weights/gguf/testdata/types.gguf"
TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS, T.MXFP4]
# where in a block its float16 scales are
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}
ROWS, COLS = 3, 512

random = np.random.default_rng(1)


def blocks(kind):
    """Bytes at random, but that no scale is infinite or NaN."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if block == 1:
        values = random.standard_normal((ROWS, COLS)).astype(np.float32)
        return gguf.quants.quantize(values, kind)
    raw = random.integers(0, 256, (ROWS * COLS // block, size), dtype=np.uint8)
    for at in SCALES.get(kind, []):
        scales = (random.standard_normal(len(raw)) * 2.0 ** random.integers(-26, 4, len(raw))).astype(np.float16)
        raw[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    if kind == T.MXFP4:
        raw[:, 0] = random.integers(100, 150, len(raw))
        raw[:2, 0] = 0, 1
    return raw.reshape(ROWS, -1)


def main():
    PATH.parent.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(PATH, "test")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -100)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000)
    writer.add_uint32("u32", 4000000000)
    writer.add_int32("i32", -2000000000)
    writer.add_uint64("u64", 1 << 50)
    writer.add_int64("i64", -(1 << 50))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_string("text", "tëxt")
    writer.add_array("texts", ["a", "", "日本"])
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("floats", [0.5, -0.25])
    writer.add_custom_alignment(64)
    for kind in TYPES:
        raw = blocks(kind)
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        writer.add_tensor(kind.name + ".expanded", gguf.quants.dequantize(raw, kind).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
