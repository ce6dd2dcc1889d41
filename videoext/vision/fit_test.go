package vision

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// shape is an output without values.
func shape(name string, dims ...int) Output { return Output{Name: name, Shape: dims} }

// published are the outputs of networks as their authors publish them, the decoders that are told to suit them, and what of others is wrong.
var published = []struct {
	name    string
	in      Size
	outputs []Output
	suited  string
}{
	{"YOLOX-nano", Size{416, 416}, []Output{shape("output", 1, 3549, 85)}, "yolox"},
	{"YOLOX-nano of any batch", Size{416, 416}, []Output{shape("output", -1, 3549, 85)}, "yolox"},
	{"YOLOX-nano of any size", Size{}, []Output{shape("output", 1, -1, 85)}, "yolox gfl"},
	{"a person detector of YOLOX", Size{192, 192}, []Output{shape("output", 1, 756, 6)}, "yolox"},
	{"YOLOX without a batch", Size{416, 416}, []Output{shape("output", 3549, 85)}, "yolox"},
	{"FastestDet", Size{352, 352}, []Output{shape("758", 1, 85, 22, 22)}, "fastestdet segmentation"},
	{"NanoDet-Plus", Size{416, 416}, []Output{shape("output", 1, 3598, 112)}, "gfl"},
	{"RFB faces", Size{240, 320}, []Output{shape("scores", 1, 4420, 2), shape("boxes", 1, 4420, 4)}, "ssd"},
	{"a detector of Open Model Zoo", Size{1024, 1024}, []Output{shape("boxes", 1, 48384, 4), shape("scores", 1, 48384, 4)}, "ssd"},
	{"YuNet of 2023", Size{640, 640}, []Output{
		shape("cls_8", 1, 6400, 1), shape("cls_16", 1, 1600, 1), shape("cls_32", 1, 400, 1), shape("obj_8", 1, 6400, 1), shape("obj_16", 1, 1600, 1), shape("obj_32", 1, 400, 1),
		shape("bbox_8", 1, 6400, 4), shape("bbox_16", 1, 1600, 4), shape("bbox_32", 1, 400, 4), shape("kps_8", 1, 6400, 10), shape("kps_16", 1, 1600, 10), shape("kps_32", 1, 400, 10),
	}, "yunet"},
	{"YuNet without a batch", Size{640, 640}, []Output{
		shape("cls_8", 6400, 1), shape("cls_16", 1600, 1), shape("cls_32", 400, 1), shape("obj_8", 6400, 1), shape("obj_16", 1600, 1), shape("obj_32", 400, 1),
		shape("bbox_8", 6400, 4), shape("bbox_16", 1600, 4), shape("bbox_32", 400, 4),
	}, "yunet"},
	{"YuNet of priors", Size{120, 160}, []Output{shape("loc", 1076, 14), shape("conf", 1076, 2), shape("iou", 1076, 1)}, "yunet"},
	{"YuNet of priors, of any size", Size{}, []Output{shape("loc", -1, 14), shape("conf", -1, 2), shape("iou", -1, 1)}, "yunet"},
	{"DeepLab v3", Size{257, 257}, []Output{shape("logits", 1, 257, 257, 21)}, "segmentation"},
	{"ESPNetv2", Size{512, 1024}, []Output{shape("logits", 1, 20, 512, 1024)}, "segmentation"},
	{"a coarse map of many classes", Size{64, 64}, []Output{shape("logits", 1, 150, 16, 16)}, "segmentation"},
	{"a classifier", Size{224, 224}, []Output{shape("logits", 1, 1000)}, ""},
	{"outputs of any form", Size{224, 224}, []Output{{Name: "out"}}, "yolox fastestdet gfl ssd yunet segmentation"},
}

// TestSuggest names the decoders that suit networks as they are published, and refuses all others, with the one that suits.
func TestSuggest(t *testing.T) {
	for _, p := range published {
		if got := strings.Join(Suggest(p.outputs, p.in), " "); got != p.suited {
			t.Errorf("%s: %q is suggested, want %q", p.name, got, p.suited)
		}
		for _, d := range decoders {
			err := d.Check(p.outputs, p.in)
			if suits := slices.Contains(strings.Fields(p.suited), d.Name); suits != (err == nil) {
				t.Errorf("%s, decoder %s: %v", p.name, d.Name, err)
			}
			if err != nil && p.suited != "" && !strings.Contains(err.Error(), "outputs like these are read by "+strings.ReplaceAll(p.suited, " ", " or ")) {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

// TestWithoutABatchDimension: outputs without a first dimension of 1 mean what they mean with one.
func TestWithoutABatchDimension(t *testing.T) {
	in, things := Size{160, 192}, []thing{{Box{20, 20, 51, 55}, 0, 0.8}}
	for name, encode := range map[string]encoder{"yolox": encodeYOLOX, "fastestdet": encodeFastestDet, "gfl": encodeGFL(false), "ssd": encodeSSD, "yunet": encodeYuNet} {
		d, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		outputs := encode(in, things)
		for i := range outputs {
			outputs[i].Shape = outputs[i].Shape[1:]
		}
		r, err := d.Decode(outputs, Options{Input: in})
		if err != nil || len(r.Detections) != 1 || IoU(r.Detections[0].Box, things[0].box) < 0.98 {
			t.Errorf("%s: %+v, %v", name, r.Detections, err)
		}
		if err := d.Check(outputs, in); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckRefusesNothingThatDecodes: what is said of shapes alone, some of which are not known, holds for the values.
func TestCheckRefusesNothingThatDecodes(t *testing.T) {
	in := Size{160, 192}
	for name, encode := range map[string]encoder{"yolox": encodeYOLOX, "fastestdet": encodeFastestDet, "gfl": encodeGFL(true), "ssd": encodeSSD, "yunet": encodeYuNet} {
		d, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 1))
			outputs := encode(in, nil)
			for i := range outputs {
				outputs[i].Data = nil
				outputs[i].Shape = slices.Clone(outputs[i].Shape)
				for k := range outputs[i].Shape {
					if r.IntN(3) == 0 {
						outputs[i].Shape[k] = -1
					}
				}
			}
			for _, size := range []Size{in, {}} {
				if err := d.Check(outputs, size); err != nil {
					t.Errorf("seed %d, input %v: %v", seed, size, err)
				}
			}
		}
	}
}
