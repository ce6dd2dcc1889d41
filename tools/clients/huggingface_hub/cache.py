"""Checks the cache of models both ways with huggingface_hub's unmodified library and `hf`: what the program downloads they find without the network, and the
other way round; downloads of both at once wait for each other."""
import os
import subprocess
import sys

program, hub, home, model = sys.argv[1:5]
os.environ.update(HF_ENDPOINT=hub, HF_HOME=home, HF_HUB_DISABLE_PROGRESS_BARS="1")

import huggingface_hub  # reads the variables
from huggingface_hub.errors import RepositoryNotFoundError

from checks import check, report

hf = os.path.join(os.path.dirname(sys.executable), "hf")


def run(command, **env):
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def files(path):
    return sorted(os.path.relpath(os.path.join(at, name), path) for at, _, names in os.walk(path) for name in names)


ours, theirs = os.path.join(home, "ours"), os.path.join(home, "theirs")
code, path, told = run([program, "model", "download", model], HF_HUB_CACHE=ours)
check("download", code == 0 and os.path.isfile(os.path.join(path, "model.safetensors")), told)
found = huggingface_hub.snapshot_download(model, cache_dir=ours, local_files_only=True)
check("snapshot_download without the network", found == path, found)
check("file without the network", huggingface_hub.hf_hub_download(model, "config.json", cache_dir=ours, local_files_only=True) == os.path.join(path, "config.json"))
absent = huggingface_hub.try_to_load_from_cache(model, "chat_template.jinja", cache_dir=ours)
check("known not to exist", absent is huggingface_hub.file_download._CACHED_NO_EXIST, absent)
code, text, told = run([hf, "download", model], HF_HUB_CACHE=ours, HF_HUB_OFFLINE="1")
check("hf download without the network", code == 0 and path in text, text + told)
scanned = huggingface_hub.scan_cache_dir(ours)
check("scan", not scanned.warnings and [r.repo_id for r in scanned.repos] == [model], scanned.warnings)
blobs = {name: os.stat(os.path.join(path, "../../blobs", name)).st_mtime_ns for name in os.listdir(os.path.join(path, "../../blobs"))}
check("downloaded again", huggingface_hub.snapshot_download(model, cache_dir=ours) == path)
check("nothing is fetched twice", all(os.stat(os.path.join(path, "../../blobs", name)).st_mtime_ns == at for name, at in blobs.items()))

there = huggingface_hub.snapshot_download(model, cache_dir=theirs)
code, text, told = run([program, "model", "show", model], HF_HUB_CACHE=theirs, HF_HUB_OFFLINE="1")
check("theirs without the network", code == 0 and text.startswith(there), text + told)
code, again, told = run([program, "model", "download", model], HF_HUB_CACHE=theirs)
check("theirs, downloaded again", code == 0 and again == there and set(files(path)) <= set(files(there)), told)
os.remove(os.path.join(there, "tokenizer.json"))
code, text, told = run([program, "model", "show", model], HF_HUB_CACHE=theirs, HF_HUB_OFFLINE="1")
check("theirs, incomplete", code == 78 and "lacks tokenizer.json" in told, text + told)

both = os.path.join(home, "both")
env = {**os.environ, "HF_HUB_CACHE": both}
together = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for command in ([program, "model", "download", model], [hf, "download", model], [program, "model", "download", model])]
ended = [p.communicate(timeout=300) for p in together]
check("at once", all(p.returncode == 0 for p in together), ended)
left = [name for name in files(both) if name.endswith((".incomplete", ".tmp"))]
check("nothing is left over", not left, left)

code, _, told = run([program, "model", "download", "nobody/nothing"])
try:
    huggingface_hub.snapshot_download("nobody/nothing")
    refused = False
except RepositoryNotFoundError:
    refused = True
check("no such repository", refused and code == 78 and "check the name" in told, told)
report(f"huggingface_hub {huggingface_hub.__version__}, cache")
