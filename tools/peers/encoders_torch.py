#!/usr/bin/env python3
"""Times sentence-transformers on the 1,000 short texts of engine/encoder's BenchmarkTexts, with random weights of its shapes.

    python3 tools/peers/encoders_torch.py [SHAPE ...]     needs torch, transformers, sentence-transformers, tokenizers

Each line is a shape, the type of the weights, the batch size and the texts a second of the best of three runs, tokenizing
included. See tools/peers/encoders.sh for both side by side.
"""

import sys
import tempfile
import time

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

BERT = {"vocab_size": 30522, "num_attention_heads": 12, "max_position_embeddings": 512}
SHAPES = {
    "minilm-l6": transformers.BertConfig(**BERT, hidden_size=384, intermediate_size=1536, num_hidden_layers=6),
    "bert-base": transformers.BertConfig(**BERT, hidden_size=768, intermediate_size=3072, num_hidden_layers=12),
    "modernbert": transformers.ModernBertConfig(
        vocab_size=50368, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12, max_position_embeddings=8192
    ),
}
WORDS = 5000
RUNS = 3


def tokenizer():
    """One token a word, between [CLS] and [SEP]."""
    vocab = {name: i for i, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])}
    vocab |= {f"w{i}": len(vocab) + i for i in range(WORDS)}
    t = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", model_max_length=512)


def texts(n):
    return [" ".join(f"w{(i * 31 + j * 17) % WORDS}" for j in range(6 + i * 17 % 41)) for i in range(n)]


def save(shape, directory):
    """Writes the checkpoint of a shape, as sentence-transformers does."""
    with tempfile.TemporaryDirectory() as bare:
        transformers.AutoModel.from_config(SHAPES[shape]).save_pretrained(bare)
        tokenizer().save_pretrained(bare)
        SentenceTransformer(modules=[Transformer(bare), Pooling(SHAPES[shape].hidden_size, "mean")], device="cpu").save(directory)


def measure(shape, dtype, batch):
    with tempfile.TemporaryDirectory() as directory:
        save(shape, directory)
        model = SentenceTransformer(directory, device="cpu", model_kwargs={"dtype": dtype})
        sentences = texts(1000)
        model.encode(sentences[:64], batch_size=batch)
        best = 0.0
        for _ in range(RUNS):
            start = time.perf_counter()
            model.encode(sentences, batch_size=batch)
            best = max(best, len(sentences) / (time.perf_counter() - start))
    print(f"{shape} {str(dtype).removeprefix('torch.')} batch {batch}: {best:.0f} texts/s", flush=True)


if __name__ == "__main__":
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads", flush=True)
    for name in sys.argv[1:] or SHAPES:
        for kind in (torch.float32, torch.bfloat16):
            for size in (32, 64):
                measure(name, kind, size)
