"""Write a checkpoint in the formats of the peers; run inside their virtual environment.

  models.py FORMAT CHECKPOINT OUT
"""

import json
import pathlib
import sys

CALIBRATION = (32, 256)  # prompts of random tokens, and tokens of each


def openvino(checkpoint, out):
    export(checkpoint, out)


def openvino_int8(checkpoint, out):
    """Weights in int8 with a scale for each row, the embedding too; the runtime quantises activations as they come."""
    from optimum.intel import OVWeightQuantizationConfig

    export(checkpoint, out, quantization_config=OVWeightQuantizationConfig(bits=8))


def openvino_w8a8(checkpoint, out):
    """Weights and activations in int8 by NNCF, whose scales of activations are of random tokens."""
    import nncf
    import numpy as np
    import openvino as ov

    export(checkpoint, out)
    model = ov.Core().read_model(out / "openvino_model.xml")
    vocabulary = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
    rng = np.random.default_rng(1)
    prompts, tokens = CALIBRATION
    inputs = [openvino_inputs(model, rng.integers(vocabulary, size=tokens)) for _ in range(prompts)]
    quantized = nncf.quantize(model, nncf.Dataset(inputs), model_type=nncf.ModelType.TRANSFORMER, subset_size=prompts)
    # Weights of the file that the model is read from are mapped: the new one is written beside it.
    ov.save_model(quantized, out / "quantized.xml", compress_to_fp16=False)
    for suffix in (".xml", ".bin"):
        (out / f"quantized{suffix}").replace(out / f"openvino_model{suffix}")


def export(checkpoint, out, **options):
    from optimum.intel import OVModelForCausalLM

    OVModelForCausalLM.from_pretrained(checkpoint, export=True, stateful=True, compile=False, load_in_8bit=False, **options).save_pretrained(out)


def openvino_inputs(model, ids):
    """The inputs of one prompt from its beginning, those that the model has."""
    import numpy as np

    inputs = {
        "input_ids": np.asarray([ids], dtype=np.int64),
        "attention_mask": np.ones((1, len(ids)), dtype=np.int64),
        "position_ids": np.arange(len(ids), dtype=np.int64)[None],
        "beam_idx": np.zeros(1, dtype=np.int32),
    }
    names = {name for port in model.inputs for name in port.get_names()}
    return {name: value for name, value in inputs.items() if name in names}


# GGUF's names of a layer's tensors.
GGUF = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF[module]}.{kind}"


def gguf(checkpoint, out, matrices):
    """A GGUF without a tokenizer: matrices in the type given, the embedding, which is the LM head too, among them."""
    import gguf as library
    import numpy as np
    from safetensors import safe_open

    config = json.loads((checkpoint / "config.json").read_text())
    out.mkdir(parents=True)
    writer = library.GGUFWriter(out / "model.gguf", "qwen2")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    with safe_open(checkpoint / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():
            values = tensors.get_tensor(name).float().numpy()
            kind = library.GGMLQuantizationType[matrices] if values.ndim == 2 else library.GGMLQuantizationType.F32
            writer.add_tensor(gguf_name(name), library.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


FORMATS = {
    "openvino": openvino,
    "openvino-int8": openvino_int8,
    "openvino-w8a8": openvino_w8a8,
    "gguf-bf16": lambda checkpoint, out: gguf(checkpoint, out, "BF16"),
    "gguf-q8_0": lambda checkpoint, out: gguf(checkpoint, out, "Q8_0"),
}

if __name__ == "__main__":
    name, source, destination = sys.argv[1:]
    FORMATS[name](pathlib.Path(source), pathlib.Path(destination))
