"""Holds /v1/ocr to rapidocr, whose networks and pipeline it is held to: the same text, and how long a page takes by turns.

    pip install rapidocr onnxruntime pillow
    python tools/peers/ocr_pages.py draw DIR                                  # 20 pages, with what they say beside them
    prefillonly serve --config models.yaml                                     # path: the folder models of the package rapidocr
    python tools/peers/ocr_pages.py compare http://localhost:8000 DIR/*.png   # and other pictures
"""

import argparse
import base64
import json
import pathlib
import random
import statistics
import time
import urllib.request

WORDS = """the of and a to in is you that it he was for on are as with his they I at be this have from or one had by word but not what
all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would
make like him into time has look two more write go see number no way could people my than first water been call who oil its now find long
down day did get come made may part Invoice Total Amount Address Chapter Section Figure Table London Paris Berlin January August Monday
pipeline throughput latency scheduler memory picture quarterly revenue signature customer agreement""".split()


def sentence(draw):
    parts = []
    for _ in range(draw.randint(3, 9)):
        kind = draw.random()
        if kind < 0.1:
            parts.append(f"{draw.randint(1, 31):02d}/{draw.randint(1, 12):02d}/{draw.randint(1990, 2030)}")
        elif kind < 0.2:
            parts.append(f"${draw.randint(1, 9999)}.{draw.randint(0, 99):02d}")
        else:
            parts.append(draw.choice(WORDS) + draw.choice(["", "", "", "", ",", ";", "."]))
    return " ".join(parts)


def draw_page(number):
    """A page and its lines, by its number alone."""
    from PIL import Image, ImageDraw, ImageFont

    draw = random.Random(number)
    width, height = draw.randint(800, 1400), draw.randint(760, 1300)
    dark = number % 5 == 4
    paper, ink = ((20, 24, 40), (235, 235, 225)) if dark else ((255, 255 - number, 250 - 2 * number), (10, 10, 10 + 5 * number))
    page = Image.new("RGB", (width, height), paper)
    pen = ImageDraw.Draw(page)
    face = ["DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf", "DejaVuSans-Bold.ttf"][number % 4]
    y, lines = 40, []
    while True:
        font = ImageFont.truetype(face, draw.randint(18, 36))
        text = sentence(draw)
        while text and font.getlength(text) > width - 100:
            text = text.rsplit(" ", 1)[0] if " " in text else ""
        left, top, right, bottom = font.getbbox(text)
        if y + bottom > height - 40:
            break
        pen.text((40 + draw.randint(0, 20), y), text, fill=ink, font=font)
        lines.append(text)
        y += bottom + draw.randint(14, 30)
    if number % 3 == 1:
        page = page.rotate(draw.uniform(-1.5, 1.5), resample=Image.BICUBIC, fillcolor=paper)
    return page, lines


def distance(a, b):
    """How many characters are to be changed, added or left out to make b of a."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def ask(server, model, picture):
    body = json.dumps({"model": model, "image": base64.b64encode(picture).decode()}).encode()
    request = urllib.request.Request(server + "/v1/ocr", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def compare(server, model, files, turns):
    from rapidocr import RapidOCR

    params = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 2}
    judge = RapidOCR(params=params)
    wrong = total = ours_off = theirs_off = written = 0
    ratios = []
    for file in files:
        picture = pathlib.Path(file).read_bytes()
        times = {"ours": [], "theirs": []}
        for turn in range(turns + 1):  # the first one is not timed
            begun = time.perf_counter()
            ours = ask(server, model, picture)["text"]
            middle = time.perf_counter()
            theirs = "\n".join(judge(picture).txts or [])
            if turn:
                times["ours"].append(middle - begun)
                times["theirs"].append(time.perf_counter() - middle)
        off = distance(theirs, ours)
        wrong, total = wrong + off, total + len(theirs)
        mine, other = statistics.median(times["ours"]), statistics.median(times["theirs"])
        ratios.append(mine / other)
        note = ""
        truth = pathlib.Path(file).with_suffix(".txt")
        if truth.exists():
            text = truth.read_text()
            a, b = distance(text, ours), distance(text, theirs)
            ours_off, theirs_off, written = ours_off + a, theirs_off + b, written + len(text)
            note = f", off what is written: {a} and {b} of {len(text)}"
        print(f"{file}: {off} of {len(theirs)} characters differ{note}; {mine * 1000:.0f} ms and {other * 1000:.0f} ms", flush=True)
        if off:
            for a, b in zip(ours.split("\n"), theirs.split("\n")):
                if a != b:
                    print(f"    ours   {a}\n    theirs {b}")
    print(f"equal: {100 - 100 * wrong / max(1, total):.2f} % of {total} characters; time: {statistics.median(ratios):.2f} of rapidocr's (median)")
    if written:
        print(f"right: {100 - 100 * ours_off / written:.2f} % of {written} characters, rapidocr {100 - 100 * theirs_off / written:.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("dir", type=pathlib.Path)
    drawing.add_argument("--pages", type=int, default=20)
    comparing = commands.add_parser("compare")
    comparing.add_argument("server")
    comparing.add_argument("pictures", nargs="+")
    comparing.add_argument("--model", default="")
    comparing.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    if given.command == "compare":
        compare(given.server, given.model, given.pictures, given.turns)
        return
    given.dir.mkdir(parents=True, exist_ok=True)
    for number in range(given.pages):
        page, lines = draw_page(number)
        page.save(given.dir / f"page{number:02d}.png")
        (given.dir / f"page{number:02d}.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
