"""Drives a prefillonly server of networks with the unmodified tritonclient package and checks what comes back.

usage: triton_client.py HOST:PORT KEY ADMIN_KEY. The server has the model "pixels" of make_network.py, loaded on demand,
with the image {order: BGR, letterbox: 114}."""
from importlib.metadata import version
import io
import sys
import time

import numpy as np
from PIL import Image
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from checks import check, report

url, key, admin_key = sys.argv[1:4]
client = triton.InferenceServerClient(url, concurrency=4)
auth = {"Authorization": "Bearer " + key}
admin = {"Authorization": "Bearer " + admin_key}
model = "pixels"

def refused(name, status, says, call):
    try:
        call()
    except InferenceServerException as error:
        check(name, error.status() in (None, str(status)) and says in error.message(), (error.status(), error.message()))
        return
    sys.exit(f"FAIL {name}: not refused")


def wait_until(ready):
    for _ in range(600):
        try:
            if ready():
                return
        except (InferenceServerException, ConnectionError, OSError):
            pass
        time.sleep(0.1)
    sys.exit("the server did not get ready within 60 s")


def tensor(name, values, datatype="FP32", binary=True):
    t = triton.InferInput(name, list(values.shape), datatype)
    t.set_data_from_numpy(values, binary_data=binary)
    return t


def wanted(binary=True, names=("mean", "bright")):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in names]


def infer(inputs, **more):
    return client.infer(model, inputs, headers=dict(auth), **more)  # the client writes into them


def right(result, frames, batch):
    mean, bright = result.as_numpy("mean"), result.as_numpy("bright")
    return (mean.shape == (batch, 3) and bright.shape == frames.shape and np.allclose(mean, frames.mean(axis=(2, 3)), atol=1e-3)
            and np.array_equal(bright, np.maximum(frames - 100, 0)))


# Metadata needs no model on the device.
wait_until(lambda: client.is_server_live() and client.is_server_ready())
server = client.get_server_metadata(headers=auth)
check("server metadata", server["name"] == "prefillonly" and "binary_tensor_data" in server["extensions"], server)
meta = client.get_model_metadata(model, headers=auth)
check("model metadata", meta["inputs"] == [{"name": "images", "datatype": "FP32", "shape": [-1, 3, 32, 48]}] and meta["versions"] == ["1"]
      and [o["name"] for o in meta["outputs"]] == ["mean", "bright"], meta)
config = client.get_model_config(model, "1", headers=auth)
check("config", config["max_batch_size"] > 0 and config["input"][0]["format"] == "FORMAT_NCHW" and config["input"][0]["dims"] == [3, 32, 48], config)

# The repository.
index = {m["name"]: m for m in client.get_model_repository_index(headers=auth)}
check("index", index[model]["version"] == "1", index)
refused("load without an admin's key", 403, "admin", lambda: client.load_model(model, headers=auth))
client.load_model(model, headers=admin)
check("load", client.is_model_ready(model, headers=auth) and client.is_model_ready(model, "1", headers=auth))

# Tensors both ways.
r = np.random.default_rng(1)
frames = r.uniform(0, 255, (2, 3, 32, 48)).astype(np.float32)
for binary_in in (True, False):
    for binary_out in (True, False):
        got = infer([tensor("images", frames, binary=binary_in)], outputs=wanted(binary_out))
        check(f"infer, binary {binary_in} and {binary_out}", right(got, frames, 2), got.get_response())
got = infer([tensor("images", frames)], request_id="frame-17", model_version="1")
check("all outputs, request id, version", right(got, frames, 2) and got.get_response()["id"] == "frame-17" and got.get_response()["model_version"] == "1", got.get_response())
for coding in ("gzip", "deflate"):
    got = infer([tensor("images", frames)], request_compression_algorithm=coding, response_compression_algorithm=coding)
    check(coding, right(got, frames, 2))
got = infer([tensor("images", frames)], priority=1, timeout=600_000_000, parameters={"stream": "door"})
check("priority, timeout and a stream", right(got, frames, 2))

pending = [client.async_infer(model, [tensor("images", frames + i)], headers=dict(auth), request_id=str(i)) for i in range(16)]
for i, p in enumerate(pending):
    got = p.get_result()
    check("async_infer", right(got, frames + i, 2) and got.get_response()["id"] == str(i))

# Pictures.
picture = np.zeros((64, 96, 3), np.uint8)
picture[:, :48] = (200, 50, 0)
picture[:, 48:] = (0, 100, 250)
for kind in ("PNG", "JPEG"):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, kind, quality=95)
    got = infer([tensor("images", np.array([file.getvalue()] * 3, dtype=np.object_), "BYTES")])
    check(f"{kind} as BYTES", np.allclose(got.as_numpy("mean"), [[125, 75, 100]] * 3, atol=2), got.as_numpy("mean"))
got = infer([tensor("images", picture[None], "UINT8")])
check("a frame of UINT8", np.allclose(got.as_numpy("mean"), [[125, 75, 100]], atol=1e-3), got.as_numpy("mean"))
tall = infer([tensor("images", np.ascontiguousarray(picture.transpose(1, 0, 2))[None], "UINT8")]).as_numpy("bright")[0]
check("letterbox", (tall[:, :, 22:] == 14).all() and not (tall[:, :, :20] == 14).all(), tall)

# Gradients: of the sum of "mean" it is one in the number of pixels.
got = infer([tensor("images", frames), tensor("seed:mean", np.ones((2, 3), np.float32))], outputs=wanted(names=["gradient:images"]))
check("gradient", np.allclose(got.as_numpy("gradient:images"), 1 / (32 * 48), rtol=1e-4), got.as_numpy("gradient:images"))

# What is wrong.
refused("unknown model", 404, "nobody", lambda: client.infer("nobody", [tensor("images", frames)], headers=dict(auth)))
refused("unknown input", 400, "its inputs are images", lambda: infer([tensor("image", frames)]))
refused("wrong type", 400, "FP64", lambda: infer([tensor("images", frames.astype(np.float64), "FP64")]))
refused("wrong shape", 400, "[2 3 32 47]", lambda: infer([tensor("images", np.ascontiguousarray(frames[:, :, :, 1:]))]))
refused("unknown output", 400, "its outputs are mean, bright", lambda: infer([tensor("images", frames)], outputs=wanted(names=["boxes"])))
refused("no picture", 400, "neither JPEG nor PNG", lambda: infer([tensor("images", np.array([b"GIF89a"], dtype=np.object_), "BYTES")]))
refused("too late", 504, "deadline", lambda: infer([tensor("images", frames)], timeout=1))
refused("no key", 401, "API key", lambda: client.infer(model, [tensor("images", frames)]))
refused("65 MiB", 413, "67108864", lambda: infer([tensor("images", np.zeros((3700, 3, 32, 48), np.float32))]))

# perf_analyzer counts between two of these; its other calls are those above.
before = client.get_inference_statistics(model, headers=auth)["model_stats"][0]
for _ in range(3):
    infer([tensor("images", frames)])
after = client.get_inference_statistics(model, "1", headers=auth)["model_stats"][0]
grown = {k: (v["count"] - before["inference_stats"][k]["count"], v["ns"] - before["inference_stats"][k]["ns"]) for k, v in after["inference_stats"].items()}
check("statistics", after["inference_count"] - before["inference_count"] == 6 and grown["fail"] == (0, 0) and
      all(n == 3 and (ns > 0 or k == "queue") for k, (n, ns) in grown.items() if k != "fail"), (before, after))
check("statistics of all", any(m["name"] == model for m in client.get_inference_statistics(headers=auth)["model_stats"]))

client.unload_model(model, headers=admin)
index = {m["name"]: m for m in client.get_model_repository_index(headers=auth)}
check("unload", not client.is_model_ready(model, headers=auth) and index[model]["state"] == "UNAVAILABLE", index)
client.load_model(model, headers=admin)
check("load again", right(infer([tensor("images", frames)]), frames, 2))
client.close()
report(f"tritonclient {version('tritonclient')}")
