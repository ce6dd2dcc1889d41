package weights

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

func randomTensor(t *testing.T, typ kernels.DType, name string, shape ...int) kernels.HostTensor {
	t.Helper()
	tensor, err := Random{Seed: 1, Type: typ}.Tensor(name, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return tensor
}

func writeFile(t *testing.T, dir, name string, tensors ...kernels.HostTensor) {
	t.Helper()
	if err := WriteFile(filepath.Join(dir, name), tensors); err != nil {
		t.Fatal(err)
	}
}

func writeText(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *Checkpoint {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := []kernels.HostTensor{
		randomTensor(t, kernels.BF16, "a", 3, 5),
		randomTensor(t, kernels.F32, "b", 7),
		randomTensor(t, kernels.F16, "c", 900, 901),
	}
	writeFile(t, dir, singleFile, want...)
	c := open(t, dir)
	for _, w := range want {
		shape := []int{w.Rows, w.Cols}
		if w.Rows == 1 {
			shape = shape[1:]
		}
		for range 2 { // the second read follows a Release
			got, err := c.Tensor(w.Name, shape...)
			if err != nil {
				t.Fatal(err)
			}
			if got.Type != w.Type || got.Rows != w.Rows || got.Cols != w.Cols || !bytes.Equal(got.Data, w.Data) {
				t.Fatalf("tensor %q came back differently", w.Name)
			}
			c.Release(got)
		}
	}
}

// TestReleaseDropsPages checks against the kernel's own account that a released tensor is resident
// no longer, and its neighbours still are.
func TestReleaseDropsPages(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, singleFile, randomTensor(t, kernels.F32, "a", 1000, 1000), randomTensor(t, kernels.F32, "b", 1000, 1000))
	c := open(t, dir)
	a, _ := c.Tensor("a", 1000, 1000)
	b, _ := c.Tensor("b", 1000, 1000)
	sum := 0
	for _, data := range [][]byte{a.Data, b.Data} {
		for _, v := range data {
			sum += int(v)
		}
	}
	before := residentKB(t, dir)
	c.Release(a)
	after := residentKB(t, dir)
	if dropped := before - after; dropped < 3900 || dropped > 4000 || sum == 0 {
		t.Errorf("release of 4,000,000 bytes dropped %d kB (from %d to %d)", dropped, before, after)
	}
}

// residentKB is the Rss of the mappings of files below dir.
func residentKB(t *testing.T, dir string) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("needs Linux's /proc/self/smaps: %v", err)
	}
	total, ours := 0, false
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			ours = strings.Contains(line, dir)
		case ours && fields[0] == "Rss:":
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

func TestSharded(t *testing.T) {
	dir := t.TempDir()
	a, b := randomTensor(t, kernels.BF16, "a", 4, 4), randomTensor(t, kernels.BF16, "b", 4, 4)
	writeFile(t, dir, "one.safetensors", a)
	writeFile(t, dir, "two.safetensors", b)
	index := func(m string) { writeText(t, dir, indexFile, `{"metadata":{"total_size":64},"weight_map":`+m+`}`) }

	index(`{"a":"one.safetensors","b":"two.safetensors"}`)
	c := open(t, dir)
	if got, err := c.Tensor("b", 4, 4); err != nil || !bytes.Equal(got.Data, b.Data) {
		t.Fatalf("tensor b: %v", err)
	}
	if got := c.Untaken(); len(got) != 1 || got[0] != "a" {
		t.Errorf("Untaken() = %v, want [a]", got)
	}
	print := fingerprint(t, c)

	for want, m := range map[string]string{
		`three.safetensors: no such file`:                    `{"a":"one.safetensors","c":"three.safetensors"}`,
		`tensor "c" is not in one.safetensors`:               `{"a":"one.safetensors","c":"one.safetensors"}`,
		`tensor "a" is in one.safetensors, but ` + indexFile: `{"a":"two.safetensors","b":"one.safetensors"}`,
		`missing or empty weight_map`:                        `{}`,
		`invalid shard "../one.safetensors"`:                 `{"a":"../one.safetensors"}`,
		`weight_map must be a string, not number`:            `{"a":1}`,
	} {
		index(m)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("index %s: error %v, want it to hold %q", m, err, want)
		}
	}

	index(`{"a":"one.safetensors","b":"two.safetensors"}`)
	b.Data[0] ^= 1
	writeFile(t, dir, "two.safetensors", b)
	if fingerprint(t, open(t, dir)) == print {
		t.Error("the fingerprint does not tell two checkpoints apart")
	}
	writeFile(t, dir, "two.safetensors", a, b)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `"a" is in both one.safetensors and two.safetensors`) {
		t.Errorf("a tensor in two shards: error %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	whole := t.TempDir()
	writeFile(t, whole, singleFile, randomTensor(t, kernels.BF16, "a", 4, 4))
	raw, err := os.ReadFile(filepath.Join(whole, singleFile))
	if err != nil {
		t.Fatal(err)
	}
	for want, file := range map[string]struct{ name, text string }{
		"end beyond the file's 31 data bytes": {singleFile, string(raw[:len(raw)-1])},
		"truncated?":                          {singleFile, string(raw[:20])},
		"file has 0 bytes":                    {singleFile, ""},
		"convert them":                        {"pytorch_model.bin", "x"},
		"holds neither":                       {"config.json", "{}"},
	} {
		dir := t.TempDir()
		writeText(t, dir, file.name, file.text)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of %d bytes: error %v, want it to hold %q", file.name, len(file.text), err, want)
		}
	}
	if _, err := Open(filepath.Join(whole, "absent")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("absent directory: error %v", err)
	}
}

func TestTensorRefuses(t *testing.T) {
	dir := t.TempDir()
	header := `{"a":{"dtype":"F8_E5M2","shape":[2,2],"data_offsets":[0,4]}}`
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	writeText(t, dir, singleFile, string(text)+header+"1234")
	c := open(t, dir)
	for want, shape := range map[string][]int{
		`unsupported type F8_E5M2 of tensor "a"`:              {2, 2},
		`tensor "a" has shape [2 2], want [4] by config.json`: {4},
	} {
		if _, err := c.Tensor("a", shape...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
	}
	if _, err := c.Tensor("b", 2, 2); err == nil || !strings.Contains(err.Error(), `missing tensor "b" (1 tensors in 1 files)`) {
		t.Errorf("absent tensor: error %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	a := randomTensor(t, kernels.BF16, "a", 2, 2)
	path := filepath.Join(t.TempDir(), singleFile)
	if err := WriteFile(path, []kernels.HostTensor{a, a}); err == nil || !strings.Contains(err.Error(), "written twice") {
		t.Errorf("twice: error %v", err)
	}
	a.Data = a.Data[:7]
	if err := WriteFile(path, []kernels.HostTensor{a}); err == nil || !strings.Contains(err.Error(), "has 7 bytes, shape [2 2] of BF16 needs 8") {
		t.Errorf("short: error %v", err)
	}
}

// TestRandomBits pins elements that tools/golden/golden.py makes too (python3 tools/golden/golden.py --bits).
func TestRandomBits(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   kernels.DType
		shape []int
		at    int
		want  uint32
	}{
		{"model.embed_tokens.weight", kernels.BF16, []int{10, 7}, 69, 0xbf94},
		{"model.norm.weight", kernels.F32, []int{96}, 95, 0x3f82b23a},
		{"model.layers.0.self_attn.q_proj.bias", kernels.F16, []int{96}, 1, 0xa96d},
		{"model.layers.0.self_attn.q_proj.weight", kernels.F32, []int{96, 33}, 1000, 0x3e47cf1b},
	} {
		tensor := randomTensor(t, c.typ, c.name, c.shape...)
		got := uint32(0)
		if size := int(c.typ.Size()); size == 2 {
			got = uint32(binary.LittleEndian.Uint16(tensor.Data[2*c.at:]))
		} else {
			got = binary.LittleEndian.Uint32(tensor.Data[4*c.at:])
		}
		if got != c.want {
			t.Errorf("%s %s [%d] = %#x, want %#x", c.name, c.typ, c.at, got, c.want)
		}
	}
}

// TestRounding checks bf16 and f16 against the nearest of all their values.
func TestRounding(t *testing.T) {
	fromF16 := func(bits uint16) float64 {
		exponent, fraction := int(bits>>10&31), float64(bits&1023)
		if exponent == 0 {
			return math.Ldexp(fraction, -24)
		}
		return math.Ldexp(1024+fraction, exponent-25)
	}
	fromBF16 := func(bits uint16) float64 { return float64(math.Float32frombits(uint32(bits) << 16)) }
	for i := range 20000 {
		v := math.Float32frombits(uint32(splitmix(uint64(i)))&(1<<23-1) | uint32(100+i%42)<<23) // 2^-27 .. 2^14
		for name, c := range map[string]struct {
			bits uint16
			from func(uint16) float64
		}{"f16": {toF16(v), fromF16}, "bf16": {toBF16(v), fromBF16}} {
			off := math.Abs(c.from(c.bits) - float64(v))
			below := math.Abs(c.from(max(c.bits, 1)-1) - float64(v))
			above := math.Abs(c.from(c.bits+1) - float64(v))
			if off > below || off > above || (off == below || off == above) && c.bits&1 == 1 && c.bits > 1 {
				t.Fatalf("%s(%g) = %g", name, v, c.from(c.bits))
			}
		}
	}
	if toBF16(-1) != 0xbf80 || toF16(-1) != 0xbc00 || toF16(0) != 0 {
		t.Error("sign or zero is wrong")
	}
}

func fingerprint(t *testing.T, c *Checkpoint) string {
	t.Helper()
	print, err := c.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	return print
}
