"""Writes small checkpoints of random weights of each kind that scores, ranks, classifies or embeds, as their authors publish them.

Weights are as wide as trained ones after normalisation: their rows have the length 1, and heads' logits differ by several units.
"""
import json
import shutil

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = ["the cat sat on the mat .", "a feline rested .", "stock fell on monday .", "the quick brown fox over the river", "bridge", "Yes , a cat and a dog ?\n no !"]
LONG = " ".join(TEXTS * 12)
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
QWEN3_BEFORE = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
                'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
QWEN3_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
RANKING_TEMPLATE = ("""{% set instruct = messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default('""" + INSTRUCTION + """', true) %}"""
                    + QWEN3_BEFORE.replace("\n", "{{ '\\n' }}") + """<Instruct>: {{ instruct }}{{ '\\n' }}<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}{{ '\\n' }}"""
                    + """<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>{{ '\\n' }}"""
                    + """{% if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}<think>{{ '\\n\\n' }}</think>{{ '\\n\\n' }}{% endif %}""")
QWEN_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LENGTH = 512  # positions of all models
MODULES = "sentence_transformers.models."


def save_tokenizer(folder, made, special, **settings):
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=LENGTH, **special, **settings).save_pretrained(folder)


def qwen_tokenizer(folder, ends=False, template=None):
    """Bytes and merges, with Qwen's pre-tokens and special tokens. An embedder's texts end with <|endoftext|>."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.train_from_iterator([*TEXTS, QWEN3_BEFORE, INSTRUCTION, *["yes", "no"] * 20],
                             trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    made.add_tokens([AddedToken(t, normalized=False) for t in ("<think>", "</think>")])
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    if ends:
        end = made.token_to_id("<|endoftext|>")
        made.post_processor = processors.Sequence([made.post_processor, processors.TemplateProcessing(
            single="$A <|endoftext|>", pair="$A <|endoftext|> $B <|endoftext|>", special_tokens=[("<|endoftext|>", end)])])
    from tokenizers import decoders
    made.decoder = decoders.ByteLevel()
    save_tokenizer(folder, made, {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>"}, padding_side="left", model_input_names=["input_ids", "attention_mask"])
    if template:
        (folder / "chat_template.jinja").write_text(template)


def words_tokenizer(folder, kind):
    """Words, with the special tokens of BERT, of RoBERTa (which XLM-R's are) or of Llama."""
    names = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "roberta": ["<s>", "<pad>", "</s>", "<unk>"], "llama": ["<unk>", "<s>", "</s>", "<pad>"]}[kind]
    words = sorted({w for t in TEXTS for w in t.split()} | set("query : Query search_query retrieve passages".split()))
    vocabulary = {w: i for i, w in enumerate(names + words)}
    unknown = names[{"bert": 1, "roberta": 3, "llama": 0}[kind]]
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(names)
    inputs = ["input_ids", "attention_mask"]
    if kind == "bert":
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        special, inputs = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}, ["input_ids", "token_type_ids", "attention_mask"]
    elif kind == "roberta":
        made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        special = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "bos_token": "<s>", "eos_token": "</s>"}
    else:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
        special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    save_tokenizer(folder, made, special, model_input_names=inputs)


SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": LENGTH}
DECODER = {**SHAPE, "num_key_value_heads": 2, "head_dim": 32, "rope_theta": 10000.0, "tie_word_embeddings": False}
# family: prefix of transformers' classes, tokenizer, configuration
FAMILIES = {
    "bert": ("Bert", "bert", {**SHAPE}),
    "xlm-roberta": ("XLMRoberta", "roberta", {**SHAPE, "max_position_embeddings": LENGTH + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "modernbert": ("ModernBert", "bert", {**SHAPE, "global_attn_every_n_layers": 2, "local_attention": 16, "pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}),
    "embeddinggemma": ("Gemma3Text", "llama", {**DECODER, "num_key_value_heads": 1, "query_pre_attn_scalar": 32, "sliding_window": 32, "sliding_window_pattern": 3, "use_bidirectional_attention": True, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2", "qwen", {**DECODER}),
    "qwen3": ("Qwen3", "qwen", {**DECODER}),
    "llama": ("Llama", "llama", {**DECODER}),
    "mistral": ("Mistral", "llama", {**DECODER, "sliding_window": 64}),
}


def widen(model, head=(), wide=1):
    """Random weights: rows of the length 1, embeddings of 1 a number, norms about 1; heads of twice that."""
    for name, value in model.named_parameters():
        last = name.split(".")[-1]
        if value.dim() < 2:
            value.data = (torch.randn_like(value) / 8 + (1 if last == "weight" else 0)).to(value.dtype)
        elif "embed" in name or "word" in name:
            value.data = torch.randn_like(value)
        else:
            value.data = torch.randn_like(value) / value.shape[-1] ** 0.5 * wide
        if any(name.startswith(h) for h in head):
            value.data *= 2
    return model


def tokenizer_of(folder, family, **settings):
    kind = FAMILIES[family][1]
    if kind == "qwen":
        qwen_tokenizer(folder, **settings)
    else:
        words_tokenizer(folder, kind)
    return transformers.AutoTokenizer.from_pretrained(folder)


def make(folder, family, what, seed, tokenizer=(), wide=1, **changes):
    """A checkpoint of a family's transformers class: Model, ForCausalLM or ForSequenceClassification."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    prefix, _, settings = FAMILIES[family]
    made = tokenizer_of(folder, family, **dict(tokenizer))
    config = getattr(transformers, prefix + "Config")(vocab_size=len(made), **{**settings, "pad_token_id": made.pad_token_id, **changes})
    model = widen(getattr(transformers, prefix + what)(config), head=("score.", "classifier.", "lm_head."), wide=wide)
    decoder = "num_key_value_heads" in settings
    model.to(torch.bfloat16 if decoder else torch.float32).eval().save_pretrained(folder)
    return folder


def write_json(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def change_config(folder, **changes):
    """Changes keys of config.json; those that become None go."""
    config = {**json.loads((folder / "config.json").read_text()), **changes}
    write_json(folder / "config.json", {k: v for k, v in config.items() if v is not None or k not in changes})


def sentence(folder, pooling, *, normalize=True, prompts=None, default=None, similarity="cosine", include_prompt=None, **bert):
    """The files of sentence-transformers around a bare model."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * normalize
    write_json(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": MODULES + kind} for i, (path, kind) in enumerate(kinds)])
    settings = {"word_embedding_dimension": SHAPE["hidden_size"], f"pooling_mode_{pooling}": True}
    if include_prompt is not None:
        settings["include_prompt"] = include_prompt
    write_json(folder / "1_Pooling" / "config.json", settings)
    write_json(folder / "config_sentence_transformers.json", {"prompts": prompts or {}, "default_prompt_name": default, "similarity_fn_name": similarity})
    if bert:
        write_json(folder / "sentence_bert_config.json", bert)
    return folder


def layered(folder, source, pooling, layers, **prompts):
    """An embedder as sentence-transformers saves one whose vectors go through linear layers: pairs of a width and a function."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    shutil.rmtree(folder, ignore_errors=True)
    modules, width = [Transformer(str(source)), Pooling(SHAPE["hidden_size"], pooling)], SHAPE["hidden_size"]
    for out, function in layers:
        layer = Dense(width, out, bias=function is not None, activation_function=function)
        layer.linear.weight.data = torch.randn(out, width) / width ** 0.5
        modules.append(layer)
        width = out
    SentenceTransformer(modules=[*modules, Normalize()], device="cpu", **prompts).save(str(folder))
    return folder


def reward(folder, seed):
    """Qwen2ForRewardModel, whose class is not transformers' own: a trunk, and a head of two layers with ReLU between."""
    make(folder, "qwen2", "Model", seed)
    from safetensors.torch import load_file, save_file
    tensors = {"model." + k: v for k, v in load_file(folder / "model.safetensors").items()}
    width = SHAPE["hidden_size"]
    for name, shape in {"score.0.weight": (width, width), "score.0.bias": (width,), "score.2.weight": (1, width), "score.2.bias": (1,)}.items():
        tensors[name] = (torch.randn(shape) / shape[-1] ** 0.5 * (3 if "2.w" in name else 1)).to(torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    change_config(folder, architectures=["Qwen2ForRewardModel"], num_labels=1, id2label=None, label2id=None)
    return folder


def as_classifier(source, folder):
    """Qwen3-Reranker as ...ForSequenceClassification: the head is the LM head's row of yes less that of no."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    lm = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, dtype=torch.float32)
    rows = lm.lm_head.weight
    model.score.weight.data = (rows[tokenizer.convert_tokens_to_ids("yes")] - rows[tokenizer.convert_tokens_to_ids("no")])[None].detach().clone()
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    return folder


def as_sentence_reranker(source, folder):
    """Qwen3-Reranker as sentence-transformers 6 saves one: a LogitScore, and a template of queries and documents."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    write_json(folder / "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"idx": 1, "name": "1", "path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}])
    write_json(folder / "1_LogitScore" / "config.json", {"true_token_id": tokenizer.convert_tokens_to_ids("yes"), "false_token_id": tokenizer.convert_tokens_to_ids("no"), "module_input_name": "causal_logits"})
    write_json(folder / "sentence_bert_config.json", {
        "transformer_task": "text-generation", "modality_config": {m: {"method": "forward", "method_output_name": "logits", **({"format": "flat"} if m == "message" else {})} for m in ("text", "message")},
        "module_output_name": "causal_logits", "processing_kwargs": {"chat_template": {"add_generation_prompt": True}}})
    write_json(folder / "config_sentence_transformers.json", {"model_type": "CrossEncoder", "prompts": {"web": "Find what answers the query"}, "default_prompt_name": "web", "activation_fn": "torch.nn.modules.activation.Sigmoid"})
    (folder / "chat_template.jinja").write_text(RANKING_TEMPLATE)
    return folder
