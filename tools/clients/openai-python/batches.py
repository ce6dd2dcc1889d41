"""Keeps files and batches on a prefillonly server with the unmodified openai package."""
import io
import json
import sys
import time

import openai

from checks import check, refused, report

base_url, key, other = sys.argv[1:4]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)
stranger = openai.OpenAI(base_url=base_url, api_key=other, max_retries=0, timeout=60)


def upload(lines, **more):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return client.files.create(file=("requests.jsonl", io.BytesIO(text.encode())), purpose="batch", **more)


def line(i, url="/v1/completions", **body):
    return {"custom_id": f"r{i}", "method": "POST", "url": url, "body": {"prompt": f"The user {i} likes", "max_tokens": 1, **body}}


def ended(batch):
    for _ in range(600):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        time.sleep(0.1)
    sys.exit(f"FAIL the batch does not end: {batch}")


file = upload([line(i) for i in range(100)] + [line(100, max_tokens=-1)])
check("file", file.object == "file" and file.status == "processed" and client.files.retrieve(file.id) == file, file)
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h", metadata={"of": "tests"})
check("batch", batch.status in ("validating", "in_progress") and batch.expires_at - batch.created_at == 86400 and batch.metadata == {"of": "tests"}, batch)
batch = ended(batch)
counts = batch.request_counts
check("counts", batch.status == "completed" and (counts.total, counts.completed, counts.failed) == (101, 100, 1), batch)
answers = [json.loads(text) for text in client.files.content(batch.output_file_id).text.splitlines()]
check("answers", {a["custom_id"] for a in answers} == {f"r{i}" for i in range(100)} and len(answers) == 100, answers[:2])
live = client.completions.create(model=client.models.list().data[0].id, prompt="The user 7 likes", max_tokens=1, temperature=0)
check("an answer", all(a["response"]["status_code"] == 200 and a["response"]["body"]["object"] == live.object for a in answers), answers[0])
refusal = json.loads(client.files.content(batch.error_file_id).text)
check("a refusal", refusal["custom_id"] == "r100" and refusal["response"]["status_code"] == 400 and refusal["response"]["body"]["error"]["param"] == "max_tokens", refusal)

wrong = ended(client.batches.create(input_file_id=upload([line(1), line(1)]).id, endpoint="/v1/completions", completion_window="24h"))
check("wrong file", wrong.status == "failed" and [(e.code, e.line) for e in wrong.errors.data] == [("duplicate_custom_id", 2)], wrong)
chats = [{"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}}]
chat = ended(client.batches.create(input_file_id=upload(chats).id, endpoint="/v1/chat/completions", completion_window="24h"))
check("chat", chat.status == "completed" and "chat.completion" in client.files.content(chat.output_file_id).text, chat)

check("pages of batches", [b.id for b in client.batches.list(limit=1)] == [chat.id, wrong.id, batch.id], client.batches.list().data)
check("pages of files", len(list(client.files.list(limit=2, purpose="batch"))) == 3 and len(list(client.files.list(limit=2))) == 6, client.files.list().data)
kept = upload([line(1)], expires_after={"anchor": "created_at", "seconds": 3600})
check("expires_after", kept.expires_at - kept.created_at == 3600, kept)
check("delete", client.files.delete(kept.id).deleted, kept)
refused("deleted", openai.NotFoundError, lambda: client.files.retrieve(kept.id))
refused("another's file", openai.NotFoundError, lambda: stranger.files.content(batch.output_file_id))
refused("another's batch", openai.NotFoundError, lambda: stranger.batches.cancel(batch.id))
check("another's lists", not stranger.files.list().data and not stranger.batches.list().data)
refused("cancel what has ended", openai.BadRequestError, lambda: client.batches.cancel(batch.id))
many = client.batches.create(input_file_id=upload([line(i) for i in range(20000)]).id, endpoint="/v1/completions", completion_window="24h")
check("cancelling", client.batches.cancel(many.id).status in ("cancelling", "cancelled"))
many = ended(many)
check("cancelled", many.status == "cancelled" and many.cancelled_at, many)
error = refused("window", openai.BadRequestError, lambda: client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="soon"))
check("its field", error.param == "completion_window", error)
report("openai batches")
