"""Writes engine/ocr/testdata: what rapidocr makes of drawn maps and pictures, without networks, and what it reads in given ones.

    pip install rapidocr onnxruntime
    python tools/golden/ocr_golden.py [PICTURE...]
"""

import json
import pathlib
import random
import sys

import cv2
import numpy as np
from rapidocr import RapidOCR
from rapidocr.ch_ppocr_det.main import TextDetector
from rapidocr.ch_ppocr_det.utils import DBPostProcess
from rapidocr.utils.process_img import get_rotate_crop_image

OUT = pathlib.Path(__file__).parents[2] / "engine/ocr/testdata"


def draw_map(number):
    """Lines as a detecting network draws them: blurred bars, some of them turned."""
    draw = random.Random(number)
    height, width = 32 * draw.randint(4, 7), 32 * draw.randint(5, 8)
    picture = np.zeros((height, width), np.uint8)
    for _ in range(draw.randint(3, 7)):
        middle = (draw.uniform(20, width - 20), draw.uniform(15, height - 15))
        size = (draw.uniform(8, 90), draw.uniform(2, 14))
        turn = draw.choice([0, 0, draw.uniform(-30, 30), 90])
        corners = cv2.boxPoints((middle, size, turn))
        cv2.fillPoly(picture, [corners.astype(np.int32)], draw.randint(120, 255))
    return cv2.GaussianBlur(picture, (3, 3), 0)


def boxes_of(picture, height, width):
    read = DBPostProcess(thresh=0.3, box_thresh=0.5, max_candidates=1000, unclip_ratio=1.6, use_dilation=True)
    boxes, _ = read((picture.astype(np.float32) / 255)[None, None], (height, width))
    return [[[int(x) for x in p] for p in b] for b in TextDetector.sorted_boxes(np.array(boxes))] if len(boxes) else []


def main():
    maps = []
    for number in range(8):
        picture = draw_map(number)
        cv2.imwrite(str(OUT / f"map{number}.png"), picture)
        height, width = picture.shape[0] * (1 + number % 3), picture.shape[1] * 3 // (1 + number % 2)
        maps.append({"file": f"map{number}.png", "height": height, "width": width, "boxes": boxes_of(picture, height, width)})
    draw, crops = random.Random(9), []
    y, x = np.mgrid[0:60, 0:90]
    page = np.stack([128 + 100 * np.sin(x / 4), 128 + 100 * np.cos(y / 5), 128 + 60 * np.sin((x + y) / 7)], -1).round().astype(np.uint8)
    cv2.imwrite(str(OUT / "page.png"), page)
    for i, box in enumerate([[[5, 6], [60, 6], [60, 30], [5, 30]], [[4, 10], [70, 16], [68, 40], [2, 33]], [[30, 2], [44, 3], [43, 57], [29, 55]], [[0, 0], [89, 0], [89, 59], [0, 55]]]):
        crop = get_rotate_crop_image(page, np.array(box, np.float32))
        cv2.imwrite(str(OUT / f"crop{i}.png"), crop)
        crops.append({"file": f"crop{i}.png", "box": box})
    texts = {}
    if sys.argv[1:]:
        read = RapidOCR(params={"Global.log_level": "error"})
        texts = {pathlib.Path(f).name: "\n".join(read(f).txts) for f in sys.argv[1:]}
    (OUT / "golden.json").write_text(json.dumps({"maps": maps, "crops": crops, "texts": texts}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
