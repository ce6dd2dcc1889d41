"""Scores a two-choice task with lm-eval's unmodified local-completions model against a server.

The same continuation scored alone by /v1/completions must give the same loglikelihood. lm-eval's remote
tokenizer must render and encode messages as the server does."""
import os
import sys

os.environ["HF_DATASETS_OFFLINE"] = "1"
import lm_eval  # noqa: E402
from lm_eval.models.openai_completions import LocalCompletionsAPI  # noqa: E402
from lm_eval.utils import RemoteTokenizer  # noqa: E402
import requests  # noqa: E402

from checks import check, report  # noqa: E402

url = sys.argv[1]
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
model = requests.get(url.replace("/completions", "/models"), headers=headers, timeout=600).json()["data"][0]["id"]

lm = LocalCompletionsAPI(base_url=url, model=model, tokenizer_backend="huggingface", tokenizer="engine/demo/files", tokenized_requests=True,
                         num_concurrent=1, max_retries=1, batch_size=1, max_length=2048, header=headers)
requests_ = [([5, 9, 12, 40, 41], [50]), ([5, 9, 12, 40, 41], [51, 52, 53]), ([60, 61], [62, 63])]
scores = lm._loglikelihood_tokens([(("", ""), context, continuation) for context, continuation in requests_])
for (context, continuation), (total, greedy) in zip(requests_, scores):
    alone = 0.0
    is_greedy = True
    for i, token in enumerate(continuation):
        body = {"model": model, "prompt": context + continuation[:i], "max_tokens": 1, "logprobs": 1, "temperature": 0,
                "logprob_token_ids": [token], "return_tokens_as_token_ids": True}
        answer = requests.post(url, json=body, headers=headers, timeout=600).json()["choices"][0]["logprobs"]
        alone += answer["top_logprobs"][0][f"token_id:{token}"]
        is_greedy &= answer["tokens"][0] == f"token_id:{token}"
    check("loglikelihood", abs(total - alone) <= 1e-3 and greedy == is_greedy,
          f"{context} -> {continuation}: lm-eval {total} {greedy}, one by one {alone} {is_greedy}")

remote = RemoteTokenizer(url, auth_token=os.environ["OPENAI_API_KEY"])
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Yes or no?"}]
rendered = remote.apply_chat_template(messages, bos_token=remote.bos_token)
theirs = requests.post(url.replace("/v1/completions", "/tokenize"), json={"messages": messages}, headers=headers, timeout=600).json()["tokens"]
check("remote tokenizer", remote.encode(rendered) == theirs and remote.decode(theirs) == rendered and remote.eos_token_id is not None,
      f"{rendered!r} becomes {remote.encode(rendered)}, the server's prompt is {theirs}")
report(f"lm-eval {lm_eval.__version__}")
