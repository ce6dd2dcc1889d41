package oip

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

const limit = 1 << 20

// oracle reads the numbers of data by encoding/json, nested in any way.
func oracle(t engine.DType, data any) (out []byte) {
	switch v := data.(type) {
	case []any:
		for _, each := range v {
			out = append(out, oracle(t, each)...)
		}
	case bool:
		out = append(out, map[bool]byte{true: 1}[v])
	case json.Number:
		f, _ := v.Float64()
		switch t {
		case engine.FP32:
			return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
		case engine.FP64:
			return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
		}
		n, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil {
			u, _ := strconv.ParseUint(v.String(), 10, 64)
			n = int64(u)
		}
		return binary.LittleEndian.AppendUint64(nil, uint64(n))[:t.Size()]
	}
	return out
}

func decodeOracle(t engine.DType, text string) []byte {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var data any
	if err := d.Decode(&data); err != nil {
		panic(err)
	}
	return oracle(t, data)
}

// randomNumber writes a number that a type holds, in one of the ways in which JSON can.
func randomNumber(r *rand.Rand, t engine.DType) string {
	switch {
	case t == engine.Bool:
		return strconv.FormatBool(r.IntN(2) == 1)
	case t == engine.FP32 || t == engine.FP64:
		v := r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
		return strconv.FormatFloat(v, []byte("eEgf")[r.IntN(4)], r.IntN(19)-1, 64)
	case t >= engine.Int8:
		return strconv.FormatInt(int64(r.Uint64())>>(64-8*t.Size()), 10)
	}
	return strconv.FormatUint(r.Uint64()>>(64-8*t.Size()), 10)
}

// randomData writes data of a shape, flat or nested, with spaces here and there.
func randomData(r *rand.Rand, t engine.DType, shape []int, nested bool) string {
	space := func() string { return []string{"", "", " ", "\n\t"}[r.IntN(4)] }
	list := func(n int, each func() string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = space() + each() + space()
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	if !nested || len(shape) == 0 {
		n, _ := countOf(shape)
		return list(n, func() string { return randomNumber(r, t) })
	}
	if len(shape) == 1 {
		return list(shape[0], func() string { return randomNumber(r, t) })
	}
	return list(shape[0], func() string { return randomData(r, t, shape[1:], true) })
}

func randomShape(r *rand.Rand) []int {
	shape := make([]int, r.IntN(5))
	for i := range shape {
		shape[i] = 1 + r.IntN(4)
	}
	return shape
}

var jsonTypes = []engine.DType{engine.Bool, engine.Uint8, engine.Uint16, engine.Uint32, engine.Uint64, engine.Int8, engine.Int16, engine.Int32, engine.Int64, engine.FP32, engine.FP64}

// TestDataAgainstOracle holds that numbers are read as encoding/json reads them, whatever their form.
func TestDataAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		kind, shape := jsonTypes[r.IntN(len(jsonTypes))], randomShape(r)
		text := randomData(r, kind, shape, r.IntN(2) == 1)
		body := fmt.Sprintf(`{"inputs":[{"data":%s,"datatype":%q,"name":"x","shape":%s}]}`, text, kind, strings.ReplaceAll(fmt.Sprint(shape), " ", ","))
		got, err := Decode([]byte(body), -1, limit)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if want := decodeOracle(kind, text); !bytes.Equal(got.Inputs[0].Data, want) {
			t.Fatalf("%s: got %x, want %x", body, got.Inputs[0].Data, want)
		}
	}
}

// randomOutput is a tensor that JSON can tell.
func randomOutput(r *rand.Rand, name string, isBinary bool) Output {
	o := Output{Name: name, Type: jsonTypes[r.IntN(len(jsonTypes))], Shape: randomShape(r), Binary: isBinary}
	n, _ := countOf(o.Shape)
	for range n {
		raw := binary.LittleEndian.AppendUint64(nil, r.Uint64())[:o.Type.Size()]
		switch {
		case o.Type == engine.Bool:
			raw[0] &= 1
		case o.Type == engine.FP32 || o.Type == engine.FP64:
			if v := floatAt(o.Type, raw); v-v != 0 {
				clear(raw)
			}
		}
		o.Data = append(o.Data, raw...)
	}
	return o
}

// TestResponsesAreRead holds that an answer is JSON, and that read as a request it has the tensors that it was made of,
// bit by bit.
func TestResponsesAreRead(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		answer := Response{Model: "org/m\"", Version: "1", ID: "é\n"}
		for i := range 1 + r.IntN(3) {
			answer.Outputs = append(answer.Outputs, randomOutput(r, fmt.Sprint("y", i), r.IntN(2) == 1))
		}
		if err := answer.Check(); err != nil {
			t.Fatal(err)
		}
		text := answer.AppendJSON(nil, nil)
		if !json.Valid(text) {
			t.Fatalf("no JSON: %s", text)
		}
		body := bytes.Replace(text, []byte(`"outputs"`), []byte(`"inputs"`), 1)
		header := len(body)
		body = append(body, bytes.Join(answer.Binary(), nil)...)
		back, err := Decode(body, header, limit)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if back.ID != answer.ID || len(back.Inputs) != len(answer.Outputs) {
			t.Fatalf("%s: got %+v", text, back)
		}
		for i, o := range answer.Outputs {
			in := back.Inputs[i]
			if in.Name != o.Name || in.Type != o.Type || !slices.Equal(in.Shape, o.Shape) || !bytes.Equal(in.Data, o.Data) {
				t.Fatalf("%s: got %+v, want %+v", text, in, o)
			}
		}
	}
}

// TestSpill holds that an answer in pieces is the same.
func TestSpill(t *testing.T) {
	answer := Response{Model: "m", Version: "1", Outputs: []Output{{Name: "y", Type: engine.FP32, Shape: []int{100_000}, Data: make([]byte, 400_000)}}}
	for i := range 100_000 {
		binary.LittleEndian.PutUint32(answer.Outputs[0].Data[4*i:], math.Float32bits(float32(i)/7))
	}
	var got []byte
	pieces := 0
	got = append(got, answer.AppendJSON(nil, func(b []byte) ([]byte, bool) {
		got = append(got, b...)
		pieces++
		return b[:0], true
	})...)
	if !bytes.Equal(got, answer.AppendJSON(nil, nil)) || pieces < 10 {
		t.Errorf("%d pieces of %d bytes", pieces, len(got))
	}
	pieces = 0
	answer.AppendJSON(nil, func(b []byte) ([]byte, bool) { pieces++; return b[:0], false })
	if pieces != 1 {
		t.Errorf("%d pieces after the client has left", pieces)
	}
}

func TestDecode(t *testing.T) {
	head := `{"id":"7","parameters":{"priority":3,"timeout":1500,"stream":"door","binary_data_output":true,"promised":false,"note":[{"a":"]"}]},
		"inputs":[{"name":"a","shape":[2,1],"datatype":"INT16","parameters":{"binary_data_size":4}},
		{"name":"b","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":11}},
		{"name":"c","datatype":"BYTES","shape":[1,2],"data":[["x\n","é"]]}],
		"outputs":[{"name":"y"},{"name":"z","parameters":{"binary_data":false}}],"later":null}`
	got, err := Decode([]byte(head+"\x01\x00\xff\xff"+"\x03\x00\x00\x00abc"+"\x00\x00\x00\x00"), len(head), limit)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "7" || got.Priority != 3 || got.Timeout != 1500*time.Microsecond || got.Stream != "door" || !got.Binary || got.Promised == nil || *got.Promised {
		t.Errorf("got %+v", got)
	}
	if !got.IsBinary("y") || got.IsBinary("z") || !got.IsBinary("other") {
		t.Errorf("outputs %+v", got.Outputs)
	}
	a, b, c := got.Inputs[0], got.Inputs[1], got.Inputs[2]
	if !bytes.Equal(a.Data, []byte{1, 0, 255, 255}) || string(b.Elements[0]) != "abc" || len(b.Elements[1]) != 0 || string(c.Elements[0]) != "x\n" || string(c.Elements[1]) != "é" {
		t.Errorf("inputs %+v", got.Inputs)
	}
}

// TestRefused holds that what is wrong is refused with the figure or the name of it.
func TestRefused(t *testing.T) {
	input := func(fields string) string { return `{"inputs":[{"name":"x",` + fields + `}]}` }
	for _, c := range []struct {
		body   string
		binary string // behind it
		header int    // 0: as it is
		want   []string
	}{
		{body: "", want: []string{"byte 0 of 0", "the end"}},
		{body: "[]", want: []string{"byte 0 of 2"}},
		{body: `{}`, want: []string{"no inputs"}},
		{body: `{"inputs":[]}`, want: []string{"no inputs"}},
		{body: `{"inputs":{}}`, want: []string{`"{}}"`}},
		{body: `{"inputs":[{}]}`, want: []string{"input 0", "no name"}},
		{body: `{"inputs":[],"inputs":[]}`, want: []string{`"inputs" is given twice`}},
		{body: `{"id":"\q","inputs":[]}`, want: []string{"escape"}},
		{body: `{"id":"`, want: []string{"no end"}},
		{body: `{"id":nul}`, want: []string{"nul"}},
		{body: `{"inputs":[` + strings.Repeat("[", 100_000), want: []string{"100011", "'{'"}},
		{body: `{"x":` + strings.Repeat("[", 100_000), want: []string{"the end"}},
		{body: input(`"shape":[1],"data":[1]`), want: []string{`"x"`, "no datatype"}},
		{body: input(`"datatype":"FP32","data":[1]`), want: []string{"no shape"}},
		{body: input(`"shape":[1],"datatype":"FP32"`), want: []string{"neither data"}},
		{body: input(`"shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":4}`), want: []string{"both"}},
		{body: input(`"shape":[1],"datatype":"FLOAT","data":[1]`), want: []string{`"FLOAT"`, "FP32"}},
		{body: input(`"shape":[-1],"datatype":"FP32","data":[1]`), want: []string{"dimension 0", "-1"}},
		{body: input(`"shape":[1.5],"datatype":"FP32","data":[1]`), want: []string{"1.5"}},
		{body: input(`"shape":[99999999999999999999],"datatype":"FP32","data":[1]`), want: []string{"99999999999999999999"}},
		{body: input(`"shape":[` + strings.Repeat("1,", 40) + `1],"datatype":"FP32","data":[1]`), want: []string{"32 dimensions"}},
		{body: input(`"shape":[1000000000],"datatype":"UINT8","data":[1]`), want: []string{"1000000000", "1048576"}},
		{body: input(`"shape":[4611686018427387904,4611686018427387904],"datatype":"FP32","data":[1]`), want: []string{"more bytes than can be counted"}},
		{body: input(`"shape":[100000],"datatype":"UINT8","data":[1,2]`), want: []string{"100000 elements", "5 bytes"}},
		{body: input(`"shape":[3],"datatype":"UINT8","data":[1,2]`), want: []string{"2 elements", "[3]", "3"}},
		{body: input(`"shape":[1],"datatype":"UINT8","data":[1,2]`), want: []string{"more than 1", "[1]"}},
		{body: input(`"shape":[2,2],"datatype":"UINT8","data":[[1,2],[3]]`), want: []string{"1 elements", "[2 2]", "2"}},
		{body: input(`"shape":[2,2],"datatype":"UINT8","data":[[1,2],3,4]`), want: []string{`"3,4]"`}},
		{body: input(`"shape":[2,2],"datatype":"UINT8","data":[1,[2,3,4]]`), want: []string{"deeper"}},
		{body: input(`"shape":[2,2,1],"datatype":"UINT8","data":[[1,2],[3,4]]`), want: []string{"2 deep", "[2 2 1]"}},
		{body: input(`"shape":[],"datatype":"UINT8","data":1`), want: []string{"array"}},
		{body: input(`"shape":[1],"datatype":"UINT8","data":[256]`), want: []string{"element 0", "256", "UINT8"}},
		{body: input(`"shape":[1],"datatype":"UINT8","data":[1.0]`), want: []string{"1.0", "integer"}},
		{body: input(`"shape":[1],"datatype":"INT8","data":[-129]`), want: []string{"-129", "INT8"}},
		{body: input(`"shape":[1],"datatype":"INT8","data":[01]`), want: []string{`"01]`}},
		{body: input(`"shape":[1],"datatype":"FP32","data":[NaN]`), want: []string{"element 0", "NaN"}},
		{body: input(`"shape":[2],"datatype":"FP32","data":[1,-Infinity]`), want: []string{"element 1", "Infinity"}},
		{body: input(`"shape":[1],"datatype":"FP32","data":[1e39]`), want: []string{"1e39", "FP32"}},
		{body: input(`"shape":[1],"datatype":"FP64","data":[1e400]`), want: []string{"1e400", "FP64"}},
		{body: input(`"shape":[1],"datatype":"FP32","data":["1"]`), want: []string{"element 0"}},
		{body: input(`"shape":[1],"datatype":"FP16","data":[1]`), want: []string{"FP16", "binary"}},
		{body: input(`"shape":[1],"datatype":"BOOL","data":[2]`), want: []string{"element 0", "true"}},
		{body: input(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}`), binary: "abc", want: []string{"is 4", "3 bytes"}},
		{body: input(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":3}`), binary: "abc", want: []string{"is 3", "4 bytes"}},
		{body: input(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}`), binary: "abcde", want: []string{"1 bytes", "4 together"}},
		{body: input(`"shape":[1],"datatype":"FP32","parameters":{"binary_data_size":-4}`), want: []string{"binary_data_size", "-4"}},
		{body: input(`"shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}`), binary: "\xff\xff\xff\xffa", want: []string{"4294967295", "1 are left"}},
		{body: input(`"shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":5}`), binary: "\x01\x00\x00\x00a", want: []string{"element 1 of 2", "byte 5 of 5"}},
		{body: input(`"shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}`), binary: "\x01\x00\x00\x00ab", want: []string{"1 bytes of 6"}},
		{body: input(`"shape":[1000000000],"datatype":"BYTES","parameters":{"binary_data_size":1}`), binary: "a", want: []string{"1000000000", "4096"}},
		{body: input(`"shape":[4294967296,4294967296],"datatype":"BYTES","data":["a"]`), want: []string{"4294967296", "4096"}},
		{body: input(`"shape":[1],"datatype":"FP32","data":[1]`), header: 1000, want: []string{"1000", "body has"}},
		{body: input(`"shape":[1],"datatype":"FP32","data":[1]`) + "x", want: []string{`"x"`, "end"}},
		{body: input(`"shape":[1],"datatype":"FP32","data":[1],"parameters":{"shared_memory_region":"r"}`), want: []string{"shared memory"}},
		{body: `{"parameters":{"timeout":-1},"inputs":[]}`, want: []string{"timeout", "-1"}},
		{body: `{"parameters":{"timeout":18446744073709551615},"inputs":[]}`, want: []string{"timeout", "18446744073709551615"}},
		{body: `{"parameters":{"priority":"high"},"inputs":[]}`, want: []string{"high"}},
		{body: `{"parameters":{"sequence_id":1},"inputs":[]}`, want: []string{"sequence"}},
		{body: `{"outputs":[{}]}`, want: []string{"output 0", "no name"}},
		{body: `{"outputs":[{"name":"y","parameters":{"classification":3}}]}`, want: []string{`"y"`, "classification"}},
	} {
		header := -1
		if c.header > 0 {
			header = c.header
		} else if c.binary != "" {
			header = len(c.body)
		}
		_, err := Decode([]byte(c.body+c.binary), header, limit)
		if err == nil {
			t.Errorf("%.200s: not refused", c.body)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.200s: %q does not say %q", c.body, err, want)
			}
		}
		if len(err.Error()) > 500 {
			t.Errorf("%.200s: an error of %d bytes", c.body, len(err.Error()))
		}
	}
}

func TestUntoldInJSON(t *testing.T) {
	for want, o := range map[string]Output{
		"NaN at element 1": {Type: engine.FP32, Data: []byte{0, 0, 0, 0, 0, 0, 0xc0, 0x7f}},
		"+Inf at":          {Type: engine.FP64, Data: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}},
		"FP16":             {Type: engine.FP16, Data: []byte{0, 0}},
		"16777216":         {Type: engine.Uint8, Data: make([]byte, maxJSON+1)},
	} {
		o.Name = "y"
		if err := (&Response{Outputs: []Output{o}}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		o.Binary = true
		if err := (&Response{Outputs: []Output{o}}).Check(); err != nil {
			t.Errorf("as binary data: %v", err)
		}
	}
}

// FuzzDecode holds that no body does harm, that what is taken has the bytes that its shape says, all within the limit,
// and that it is what encoding/json makes of it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2.5],[-3e2,4]]}]}`), -1)
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":7}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`+"\x03\x00\x00\x00abc"), 141)
	f.Add([]byte(`{"id":"\u00e9","parameters":{"timeout":5},"inputs":[{"data":["a","b"],"name":"x","shape":[2],"datatype":"BYTES"}]}`), -1)
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[2],"datatype":"BOOL","data":[true,0]},{"name":"z","shape":[],"datatype":"UINT64","data":[18446744073709551615]}]}`), -1)
	f.Fuzz(func(t *testing.T, body []byte, header int) {
		r, err := Decode(body, header, limit)
		if err != nil {
			return
		}
		total := 0
		for i := range r.Inputs {
			in := &r.Inputs[i]
			ref := engine.Ref{Type: in.Type, Shape: in.Shape}
			size, ok := ref.Bytes()
			if n, _ := countOf(in.Shape); in.Type == Bytes && len(in.Elements) != n || in.Type != Bytes && (!ok || size != len(in.Data)) {
				t.Fatalf("%q: %v %v has %d bytes and %d elements", body, in.Type, in.Shape, len(in.Data), len(in.Elements))
			}
			total += len(in.Data)
		}
		if total > limit {
			t.Fatalf("%d bytes of tensors", total)
		}
		text := body
		if header >= 0 {
			text = body[:header]
		}
		var plain struct {
			ID     *string
			Inputs []struct {
				Name *string
				Data any
			}
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&plain) != nil || bytes.Contains(bytes.ToLower(text), []byte(`\u`)) || len(plain.Inputs) != len(r.Inputs) {
			return // keys that Go takes for others, or values of fields that nobody reads
		}
		for i, in := range r.Inputs {
			if plain.Inputs[i].Data == nil || in.Type == Bytes || bytes.Contains(bytes.ToLower(text), []byte(`"data"`)) && !bytes.Contains(text, []byte(`"data"`)) {
				continue
			}
			if want := oracle(in.Type, plain.Inputs[i].Data); in.Type != engine.Bool && len(want) == len(in.Data) && !bytes.Equal(want, in.Data) {
				t.Fatalf("%q: input %d is %x, want %x", body, i, in.Data, want)
			}
		}
	})
}

// BenchmarkDecode reads a frame of 416 x 416 floats as JSON, and as binary data.
func BenchmarkDecode(b *testing.B) {
	const n = 3 * 416 * 416
	r := rand.New(rand.NewPCG(1, 1))
	forms := map[string]func() string{
		"bytes":  func() string { return strconv.Itoa(r.IntN(256)) + ".0" },
		"floats": func() string { return strconv.FormatFloat(float64(r.Float32()), 'g', -1, 64) },
	}
	for _, name := range []string{"bytes", "floats"} {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = forms[name]()
		}
		body := []byte(`{"inputs":[{"name":"images","shape":[1,3,416,416],"datatype":"FP32","data":[` + strings.Join(parts, ",") + `]}]}`)
		b.Run("json "+name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for range b.N {
				if _, err := Decode(body, -1, 64<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	head := fmt.Sprintf(`{"inputs":[{"name":"images","shape":[1,3,416,416],"datatype":"FP32","parameters":{"binary_data_size":%d}}]}`, 4*n)
	body := append([]byte(head), make([]byte, 4*n)...)
	b.Run("binary", func(b *testing.B) {
		for range b.N {
			if _, err := Decode(body, len(head), 64<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEncode writes the output of YOLOX-nano as JSON.
func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	o := Output{Name: "output", Type: engine.FP32, Shape: []int{1, 3549, 85}}
	for range 3549 * 85 {
		o.Data = binary.LittleEndian.AppendUint32(o.Data, math.Float32bits(r.Float32()))
	}
	answer := Response{Model: "yolox", Version: "1", Outputs: []Output{o}}
	for range b.N {
		b.SetBytes(int64(len(answer.AppendJSON(nil, nil))))
	}
}
