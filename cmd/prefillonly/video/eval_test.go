package video

import (
	"context"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// TestVideoEval compares two methods on a real clip, with a real network, and with the program that encodes.
func TestVideoEval(t *testing.T) {
	data := os.Getenv("PREFILLONLY_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	network, clip := filepath.Join(data, "models", "yolox_nano_416.onnx"), filepath.Join(data, "video", "dashcam_highway_960x540.mp4")
	for _, file := range []string{network, clip} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("nothing to compare on: %v", err)
		}
	}
	if source, err := ffmpeg.Open(context.Background(), clip, ffmpeg.Options{}); err != nil {
		t.Skip(err)
	} else if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if text, err := exec.Command("go", "build", "-o", filepath.Join(dir, "camera"), "../../camera").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out := filepath.Join(dir, "out")
	run := func(args ...string) error {
		command := New(&cobra.Command{Use: "serve"})
		command.SetArgs(append([]string{"eval", "--clips", clip, "--detector", network, "--out", out, "--seconds", "0.5", "--segment", "3"}, args...))
		return command.ExecuteContext(context.Background())
	}
	if err := run("--classes", "car,bus,truck", "--methods", "mpeg:qp=24,mpeg:qp=44,scale=0.8,dds:preset=tuned,frames=3"); err != nil {
		t.Fatal(err)
	}
	rows := readResults(t, out)
	if len(rows) != 4 {
		t.Fatalf("%d lines, want 3 rows under a head", len(rows))
	}
	column := func(row int, name string) float64 {
		v, err := strconv.ParseFloat(rows[row][slices.Index(rows[0], name)], 64)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for name, ascending := range map[string][]int{"f1_dds": {2, 1}, "bytes_nal": {2, 3, 1}, "server_device_s": {2, 3}} {
		for i, row := range ascending[1:] {
			if before := column(ascending[i], name); before >= column(row, name) {
				t.Errorf("%s is %v in row %d, want more than the %v of row %d", name, column(row, name), row, before, ascending[i])
			}
		}
	}
	if column(3, "f1_dds") <= column(2, "f1_dds") || column(2, "camera_cpu_s") <= 0 {
		t.Errorf("%q", rows)
	}
	for _, name := range []string{"video-accuracy-dds-dashcam_highway_960x540.svg", "video-delay-dashcam_highway_960x540.svg"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	if err := run("--from", "1", "--part", "0.2", "--link", "4Mbit", "--link", "4Mbit~0.3", "--methods", "mpeg:qp=44"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, fields := range readResults(t, out) {
		got = append(got, fields[0]+" "+fields[len(fields)-1])
	}
	const name = "dashcam_highway_960x540"
	if want := []string{"clip link", name + "@0s 4Mbit", name + "@0s 4Mbit~0.3", name + "@0.2s 4Mbit", name + "@0.2s 4Mbit~0.3"}; !slices.Equal(got[:min(len(got), len(want))], want) {
		t.Errorf("parts over links are %q", got)
	}
	for want, args := range map[string][]string{
		`no method "mpg"`: {"--methods", "mpg"}, `no class "lorry"`: {"--classes", "lorry"}, "--link: ": {"--link", "fast"}, `no decoder "yolo"`: {"--decoder", "yolo"},
		"--camera-detector": {"--methods", "mpeg,vigil"}, "--resolver": {"--methods", "cloudseg:qp=30"},
		"after its first 100 seconds": {"--from", "100"}, "--image": {"--image", "{order: GBR}"}, "--part -1": {"--part", "-1"}, `--resource "watts"`: {"--resource", "watts"}, "--largest -1": {"--largest", "-1"}, "--against": {"--against", ""}, "no deviation": {"--link", "2Mbit~x"},
	} {
		if err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// readResults are the records of an evaluation's table, its head first.
func readResults(t *testing.T, dir string) [][]string {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestAsOne(t *testing.T) {
	pixels := []uint8{0, 7, 6, 1, 14, 7}
	if asOne(pixels, []int{6, 7}); !slices.Equal(pixels, []uint8{0, 1, 1, 0, 0, 1}) {
		t.Errorf("%v", pixels)
	}
}
