package wire

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/engine"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

var ask = engine.Ask{
	Top: 5, Labels: []engine.TokenID{9642, 2822}, Allowed: engine.NewTokenSet(9642, 2822, 1<<17),
	Bias: []engine.TokenBias{{ID: 7, Bias: -100}}, Temperature: 0.5, TopP: 0.9, TopK: 40, MinP: 0.05,
	Bans: []engine.Ban{{Tokens: []engine.TokenID{2}, Before: 3}, {Tokens: []engine.TokenID{5, 1 << 17}}},
	Seed: 42, PromptLogprobs: true, PromptTop: 2, PromptFrom: 3,
}

var answer = engine.Answer{
	Token: 9642, Logprob: -0.25,
	Top:    []engine.TokenLogprob{{ID: 9642, Logprob: -0.25}, {ID: 2822, Logprob: -1.5}},
	Labels: []engine.TokenLogprob{{ID: 9642, Logprob: -0.25}},
}

var info = ExecutorInfo{
	Device: "cpu (avx512_bf16, 2 threads)", Memory: 1 << 34, LoadRate: 2.5e9, CanPause: true, Nests: true, Aside: true,
	Weights: []Weight{{Bytes: 1 << 28, Resident: true}, {Bytes: 1 << 40}},
	Models: []ModelInfo{
		{
			Name: "demo", Fingerprint: "sha256:abc", Weights: []uint32{1, 0}, Work: 1 << 20, Keep: KeepIdle, Idle: time.Minute, Step: 15 * time.Millisecond,
			Cost: Cost{Base: time.Millisecond, Unit: 3 * time.Microsecond, Pair: 1.5e-9, Load: 40 * time.Microsecond},
			Tokens: &TokenLimits{
				VocabSize: 4096, MaxModelLen: 32768, BlockTokens: 64, NumBlocks: 1000, HostBlocks: 5000, MaxPassRows: 2048, CopiesParts: true,
			},
		},
		{Name: "detector", Keep: KeepAlways, Tensors: &TensorLimits{
			Inputs:       []TensorSpec{{Name: "images", Type: engine.Uint8, Shape: []int{-1, 416, 416, 3}}},
			Outputs:      []TensorSpec{{Name: "boxes", Type: engine.FP32, Shape: []int{-1, -1, 6}}},
			MaxPassItems: 8, Elements: 307200, Growth: 0.875, Backward: 0.75,
		}},
		{Name: "broken", Reason: "model.safetensors: the header is cut off"},
	},
}

var frame1 = engine.Ref{Name: "images", Type: engine.Uint8, Shape: []int{1, 416, 416, 3}, Blob: "frontend-0/7"}

var state = ExecutorState{
	Name: "cuda-0", Loaded: 1 << 33, ToLoad: 1 << 37, GPU: "NVIDIA H200", UUID: "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
	Readings: []Reading{{"DCGM_FI_DEV_GPU_TEMP", 40}, {"DCGM_FI_DEV_POWER_USAGE", 123.5}}, Device: "GPU 0",
	Passes: []PassState{{Model: "demo", Jobs: 3, Units: 1 << 33, Ran: time.Millisecond}, {Model: "demo", Jobs: 1, Units: 1, Place: PassNested}, {Model: "detector", Jobs: 2, Units: 2, Place: PassLowest}},
}

// samples has every kind with every field set, and one with none.
var samples = []struct {
	name string
	msg  Message
}{
	{"hello", &Hello{Role: RoleExecutor, Name: "cpu-0", Epoch: 1 << 63, Executor: &info}},
	{"hello-frontend", &Hello{Role: RoleFrontend, Name: "frontend-0", Epoch: 3}},
	{"welcome", &Welcome{
		Epoch: 7, Models: 3,
		Served: []Served{
			{
				Name: "demo", State: ModelReady, Executors: 2, Loaded: 1, Bytes: 1 << 30, Keep: KeepAlways, Step: time.Millisecond,
				Cost: info.Models[0].Cost, Tokens: info.Models[0].Tokens,
			},
			{Name: "detector", State: ModelFailed, Reason: "no room", Tensors: info.Models[1].Tensors},
		},
		Pool: Stats{
			Preemptions: 2, Retries: 3, ExecutorLost: 8, Nested: 1, WeightBytes: 1 << 34, WeightUsed: 1 << 33,
			RefusedJobs: 7, RefusedTokens: 11, RefusedTime: 12, RefusedUtilisation: 13,
		},
		Stats: []ModelStats{{
			Model: "demo", Waiting: 3, Running: 2, Lowest: 5000, CacheUsed: 0.75, Passes: 1, ComputedUnits: 13, PassTime: time.Minute, PrefixQueries: 4, PrefixHits: 5, HostQueries: 9, HostHits: 10,
			Evictions: 6, Loads: 2, Drops: 1, LoadedBytes: 1 << 31, LoadTime: time.Second, Late: 14, Superseded: 15, PassUnits: []uint64{0, 1 << 40, 3},
		}},
	}},
	{"hello-loading", &Hello{Role: RoleExecutor, Name: "cuda-0", Epoch: 3, State: &state}},
	{"welcome-states", &Welcome{Epoch: 7, States: []ExecutorState{state, {Name: "cpu-1"}}}},
	{"submit", &Submit{engine.Job{
		ID: 0xabcdef0000000001, Model: "demo", Work: &engine.Tokens{IDs: []engine.TokenID{1, 2, 1 << 20}, Max: 1, Stop: []engine.TokenID{2}, Ask: ask},
		User: "alice", Salt: "s", Request: 0xabcdef0000000000, Priority: -3, Deadline: time.Second, Waited: time.Millisecond,
	}}},
	{"submit-bits", &Submit{engine.Job{ID: 4, Model: "demo", Work: &engine.Tokens{IDs: []engine.TokenID{1}, Max: 1, Ask: engine.Ask{Allowed: engine.TokenSetOfBits([]uint32{^uint32(0), 0xfffffffe, 7})}}}}},
	{"submit-tensors", &Submit{engine.Job{
		ID: 7, Model: "detector", Stream: "camera-3", Promised: true, Deadline: 100 * time.Millisecond,
		Work: &engine.Tensors{Inputs: []engine.Ref{frame1}, Outputs: []string{"boxes", "scores"}, Frames: 1},
	}}},
	{"submit-gradient", &Submit{engine.Job{ID: 8, Model: "detector", Work: &engine.Tensors{
		Inputs: []engine.Ref{frame1}, Frames: 1.75,
		Grad: &engine.Grad{Seeds: []engine.Ref{{Name: "scores", Type: engine.FP32, Shape: []int{1, 3549}, Blob: "frontend-0/8"}}, Inputs: []string{"images"}},
	}}}},
	{"submit-vector", &Submit{engine.Job{ID: 9, Model: "embedder", Work: &engine.Tokens{IDs: []engine.TokenID{1, 2}, Ask: engine.Ask{Pool: engine.PoolAll, Head: true, Second: 1}}}}},
	{"submit-open", &Submit{engine.Job{ID: 10, Model: "demo", Work: &engine.Tokens{IDs: []engine.TokenID{1, 2, 3}, Generated: 2, Max: 1, Open: true}}}},
	{"submit-empty", &Submit{}},
	{"next", &Next{Job: 10, Generated: 4, Tokens: []engine.TokenID{1 << 20}, Allowed: engine.NewTokenSet(5, 1<<17), Open: true}},
	{"next-bits", &Next{Job: 10, Generated: 1, Allowed: engine.TokenSetOfBits([]uint32{^uint32(0), 0xfffffffe, 7})}},
	{"cancel", &Cancel{Job: 5}},
	{"result", &Result{
		Job: 5, Finish: engine.FinishLength, Timing: engine.Timing{Queued: time.Millisecond, Running: 2 * time.Millisecond},
		Output: &engine.TokenOutput{
			Index: 1, Answer: &answer, Prompt: []engine.PromptScore{{Logprob: -2, Rank: 3}, {Logprob: -3, Rank: 1 << 17, Top: answer.Top}}, Cached: 64,
		},
	}},
	{"result-vector", &Result{Job: 5, Output: &engine.TokenOutput{Vector: []float32{-0.5, 0, 1e-9}, Cached: 64}, Finish: engine.FinishLength}},
	{"result-tensors", &Result{Job: 7, Output: &engine.TensorOutput{Outputs: []engine.Ref{frame1, {Name: "scores"}}}, Finish: engine.FinishStop}},
	{"result-error", &Result{Job: 5, Err: &engine.Error{Code: engine.CodeOverloaded, Message: "the queue is full", RetryAfter: time.Second}}},
	{"run", &Run{Pass: 9, Model: "demo", Saves: []Copy{{Device: 4, Host: 1 << 20}}, Loads: []Copy{{Device: 4, Host: 2}, {Device: 5, Host: 1}}, Items: []RunItem{
		{5, &TokenItem{From: 7, Tokens: []engine.TokenID{1, 2, 3}, Cached: 9, Blocks: []BlockID{4, 5}, Part: Part{Block: 9, Tokens: 1}, Known: 3, Draw: 1, Ask: ask}},
		{6, &TokenItem{Tokens: []engine.TokenID{1}}},
	}}},
	{"run-tensors", &Run{Pass: 10, Model: "detector", Nested: true, Items: []RunItem{
		{7, &TensorItem{engine.Tensors{Inputs: []engine.Ref{frame1}, Outputs: []string{"boxes"}, Frames: 1}}},
	}}},
	{"run-lowest", &Run{Pass: 11, Model: "demo", Lowest: true, Items: []RunItem{{8, &TokenItem{Tokens: []engine.TokenID{1}}}}}},
	{"load", &Load{Serial: 3, Model: "demo", Weights: []uint32{1, 0}}},
	{"drop", &Drop{Weights: []uint32{7}}},
	{"loaded", &Loaded{Serial: 3, Count: 1, Took: time.Second, Err: engine.Errorf(engine.CodeUnavailable, "model.safetensors has changed")}},
	{"set-model", &SetModel{Serial: 5, Model: "demo", Unload: true}},
	{"model-set", &ModelSet{Serial: 5, Err: engine.Errorf(engine.CodeUnavailable, "no room")}},
	{"refused", &Refused{Version: 11, Release: "prefillonly 2.0"}},
	{"pause", &Pause{Pass: 9}},
	{"resume", &Resume{Pass: 9}},
	{"abort", &Abort{Pass: 9}},
	{"paused", &Paused{Pass: 9, Share: 0.125}},
	{"paused-prepares", &Paused{Pass: 9, Prepares: true}},
	{"done", &Done{Pass: 9, Took: time.Millisecond, Items: []ItemResult{
		{Job: 5, Output: &engine.TokenOutput{Answer: &answer, Prompt: []engine.PromptScore{{Logprob: -2}}}},
		{Job: 6, Err: engine.Errorf(engine.CodeBadTokens, "token 7 of 3 is 99")},
	}}},
	{"reset", &Reset{Serial: 4}},
	{"reset-done", &ResetDone{Serial: 4, Dropped: 1000, Held: 12}},
	{"done-error", &Done{Pass: 9, Err: engine.Errorf(engine.CodeInternal, "out of cheese")}},
}

// TestGolden pins the bytes of every kind: peers of one Version must understand each other.
func TestGolden(t *testing.T) {
	seen := map[Kind]bool{}
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			seen[s.msg.kind()] = true
			var text strings.Builder
			for _, f := range Encode(s.msg) {
				text.WriteString(hex.Dump(f) + "\n")
			}
			file := "testdata/" + s.name + ".golden"
			if *rewrite {
				if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text.String() != string(want) {
				t.Errorf("bytes differ from %s: give the protocol a new Version, then run the test with -rewrite\n%s", file, text.String())
			}
			got, err := Decode(Encode(s.msg))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, s.msg) {
				t.Errorf("decoded %+v\nwant    %+v", got, s.msg)
			}
		})
	}
	for k := KindHello; k < kinds; k++ {
		if !seen[k] && !t.Failed() {
			t.Errorf("no sample of kind %d", k)
		}
	}
}

func TestLocalMessagesDoNotTravel(t *testing.T) {
	for _, m := range []Message{&Tick{}, &Lost{}} {
		if f := Encode(m); f != nil {
			t.Errorf("Encode(%T) = %x, want nil", m, f)
		}
	}
}

// forms are the types that a part of an interface type may have.
var forms = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[engine.Work]():   {reflect.TypeFor[engine.Tokens](), reflect.TypeFor[engine.Tensors]()},
	reflect.TypeFor[engine.Output](): {reflect.TypeFor[engine.TokenOutput](), reflect.TypeFor[engine.TensorOutput]()},
	reflect.TypeFor[ItemWork]():      {reflect.TypeFor[TokenItem](), reflect.TypeFor[TensorItem]()},
}

// fill sets every field of v at random; counts stay in the codec's range.
func fill(v reflect.Value, rng *rand.Rand) {
	switch v.Kind() {
	case reflect.Pointer:
		if rng.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), rng)
		}
	case reflect.Interface:
		v.Set(reflect.New(forms[v.Type()][rng.IntN(2)]))
		fill(v.Elem().Elem(), rng)
	case reflect.Struct:
		if set, ok := v.Addr().Interface().(*engine.TokenSet); ok {
			for range rng.IntN(40) {
				*set = set.With(rng.Uint32N(200))
			}
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), rng)
		}
	case reflect.Slice:
		if n := rng.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			fill(v.Index(i), rng)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é", rng.IntN(200)))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int:
		v.SetInt(int64(rng.Int32()) >> rng.IntN(31))
	case reflect.Int64:
		v.SetInt(int64(rng.Uint64()) >> rng.IntN(63))
	case reflect.Uint8:
		v.SetUint(rng.Uint64N(3))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(rng.Uint64() >> 1 >> rng.IntN(63) & (1<<v.Type().Bits() - 1))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(rng.Float32()) - 0.5)
	default:
		panic(fmt.Sprintf("fill: %v", v.Type()))
	}
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		m := newMessage(KindHello + Kind(rng.IntN(int(kinds-1))))
		fill(reflect.ValueOf(m).Elem(), rng)
		got, err := Decode(Encode(m))
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("decoded %+v\nwant    %+v", got, m)
		}
	}
}

// header makes frame 0 of a hand-written message.
func header(t *testing.T, pairs ...any) []byte {
	t.Helper()
	var b strings.Builder
	e := msgpack.NewEncoder(&b)
	if err := e.EncodeMapLen(len(pairs) / 2); err != nil {
		t.Fatal(err)
	}
	if err := e.EncodeMulti(pairs...); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// setTwice is an ask that gives its allowed tokens in both forms.
type setTwice struct{}

func (setTwice) EncodeMsgpack(e *msgpack.Encoder) error {
	return errors.Join(e.EncodeMapLen(1), e.EncodeString("ask"), e.EncodeMapLen(2),
		e.EncodeMulti("allowed", []byte{1, 0, 0, 0, 9, 0, 0, 0}, "allowed_bits", []byte{1, 0, 0, 0}))
}

func TestDecodeRefuses(t *testing.T) {
	submit := func(frames ...[]byte) [][]byte {
		return append([][]byte{header(t, "v", Version, "k", int(KindSubmit), "tokens", map[string]int{"ids": 2})}, frames...)
	}
	for _, c := range []struct {
		name, want string
		frames     [][]byte
	}{
		{"nothing", "no header frame", nil},
		{"empty header", "EOF", [][]byte{{}}},
		{"not a map", "header", [][]byte{{0x01}}},
		{"no kind", "lacks version and kind", [][]byte{header(t, "v", Version)}},
		{"kind first", `key "k" where "v" belongs`, [][]byte{header(t, "k", 1, "v", Version)}},
		{"unknown kind", "unknown kind 99", [][]byte{header(t, "v", Version, "k", 99)}},
		{"kind that never travels", "unknown kind 0", [][]byte{header(t, "v", Version, "k", int(kindLocal))}},
		{"missing frame", "a frame of 2 elements is missing", submit()},
		{"frame too many", "1 frames too many", submit(make([]byte, 8), nil)},
		{"short frame", "a frame of 7 bytes where 2 words belong", submit(make([]byte, 7))},
		{"long frame", "a frame of 12 bytes where 2 words belong", submit(make([]byte, 12))},
		{"ragged copies", "a frame of 12 bytes where 2 copies belong", [][]byte{header(t, "v", Version, "k", int(KindRun), "saves", 2), make([]byte, 12)}},
		{"negative count", "a count of -1", [][]byte{header(t, "v", Version, "k", int(KindSubmit), "tokens", map[string]int{"max": -1})}},
		{"string where a number belongs", "decoding int64", [][]byte{header(t, "v", Version, "k", int(KindSubmit), "priority", "high")}},
		{"ragged list", "3 bytes where elements have 4", [][]byte{header(t, "v", Version, "k", int(KindSubmit), "tokens", map[string]any{"stop": []byte{1, 2, 3}})}},
		{"huge array", "claims 4294967295 elements", [][]byte{{0x83, 0xa1, 'v', Version, 0xa1, 'k', byte(KindRun), 0xa5, 'i', 't', 'e', 'm', 's', 0xdd, 255, 255, 255, 255}}},
		{"huge string", "claims 4294967295 elements", [][]byte{{0x83, 0xa1, 'v', Version, 0xa1, 'k', byte(KindHello), 0xa4, 'n', 'a', 'm', 'e', 0xdb, 255, 255, 255, 255}}},
		{"set of no tokens", "a set of 0 tokens, 0 of them in another form", [][]byte{header(t, "v", Version, "k", int(KindSubmit), "tokens", map[string]any{"ask": map[string]any{"allowed_bits": make([]byte, 12)}})}},
		{"two sets", "2 of them in another form", [][]byte{header(t, "v", Version, "k", int(KindSubmit), "tokens", setTwice{})}},
		{"ragged bans", "ban 1 is cut off", [][]byte{header(t, "v", Version, "k", int(KindSubmit), "tokens", map[string]any{"ask": map[string]any{"bans": make([]byte, 12)}})}},
		{"trailing bytes", "1 bytes after the header", [][]byte{append(header(t, "v", Version, "k", int(KindCancel), "job", 1), 0)}},
		{"long key", "a key of 40 bytes", [][]byte{header(t, "v", Version, "k", int(KindCancel), strings.Repeat("x", 40), 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Decode(c.frames)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode = %v, %v; want an error with %q", m, err, c.want)
			}
		})
	}
}

func TestOtherVersionIsNamed(t *testing.T) {
	_, err := Decode([][]byte{header(t, "v", Version+1, "k", 200, "future", "x"), nil, nil})
	var v *VersionError
	if !errors.As(err, &v) || v.Got != Version+1 || !strings.Contains(err.Error(), fmt.Sprintf("version %d", Version+1)) || !strings.Contains(err.Error(), fmt.Sprintf("version %d:", Version)) {
		t.Errorf("Decode = %v, want a VersionError that names both versions", err)
	}
}

// TestRefusalIsReadByOtherVersions gives a peer of another version the refusal that is meant for it: a process
// that speaks that version reads it.
func TestRefusalIsReadByOtherVersions(t *testing.T) {
	got, err := Decode(Refuse(Version, "prefillonly 2.0"))
	if want := (&Refused{Version: Version, Release: "prefillonly 2.0"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Decode = %+v, %v; want %+v", got, err, want)
	}
	var v *VersionError
	if _, err := Decode(Refuse(Version+1, "x")); !errors.As(err, &v) || v.Got != Version+1 {
		t.Errorf("what is meant for version %d is %v here", Version+1, err)
	}
}

// TestFieldsInAnyOrder reads a message whose keys come last to first, with one that is unknown between.
func TestFieldsInAnyOrder(t *testing.T) {
	h := header(t, "v", Version, "k", int(KindDone), "took", 7, "future", 1, "err", map[string]any{"message": "m", "code": 2}, "pass", 9)
	m, err := Decode([][]byte{h})
	if want := (&Done{Pass: 9, Took: 7, Err: &engine.Error{Code: 2, Message: "m"}}); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("Decode = %+v, %v; want %+v", m, err, want)
	}
}

func TestUnknownKeysAreSkipped(t *testing.T) {
	deep := []byte{}
	for range 100_000 { // deeper than a recursive reader would like
		deep = append(deep, 0x91)
	}
	deep = append(deep, 0xc0)
	h := header(t, "v", Version, "k", int(KindCancel),
		"future", map[string]any{"a": []any{1, "x", nil, 2.5, []byte{1}}}, "more", time.Unix(0, 0), "nothing", nil, "job", 7)
	h[0]++
	h = append(h, 0xa4, 'd', 'e', 'e', 'p')
	m, err := Decode([][]byte{append(h, deep...)})
	if err != nil {
		t.Fatal(err)
	}
	if want := (&Cancel{Job: 7}); !reflect.DeepEqual(m, want) {
		t.Errorf("Decode = %+v, want %+v", m, want)
	}
}

// FuzzDecode feeds a header and two frames; whatever is accepted must survive a round trip.
func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		frames := append(Encode(s.msg), nil, nil)
		f.Add(frames[0], frames[1], frames[2], len(Encode(s.msg)))
	}
	f.Fuzz(func(t *testing.T, h, a, b []byte, n int) {
		frames := [][]byte{h, a, b}
		m, err := Decode(frames[:max(0, min(n, 3))])
		if err != nil {
			return
		}
		again, err := Decode(Encode(m))
		if err != nil {
			t.Fatalf("%+v does not decode again: %v", m, err)
		}
		if a, b := fmt.Sprintf("%+v", Encode(m)), fmt.Sprintf("%+v", Encode(again)); a != b {
			t.Fatalf("%+v changed to %+v", m, again)
		}
		for i, f := range frames { // at another place in memory
			frames[i] = append(make([]byte, 1, 1+len(f)), f...)[1:]
		}
		moved, err := Decode(frames[:max(0, min(n, 3))])
		if err != nil || fmt.Sprintf("%+v", Encode(moved)) != fmt.Sprintf("%+v", Encode(m)) {
			t.Fatalf("%+v becomes %+v, %v, where its frames lie elsewhere", m, moved, err)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	submit := func(tokens int) *Submit {
		work := &engine.Tokens{IDs: make([]engine.TokenID, tokens), Max: 1, Ask: engine.Ask{Top: 5, Temperature: 1}}
		return &Submit{engine.Job{ID: 1 << 40, Model: "demo", Work: work, User: "alice"}}
	}
	nearly := make([]uint32, 151936/32)
	for i := range nearly {
		nearly[i] = 1<<32 - 3
	}
	open := submit(32)
	open.Work.(*engine.Tokens).Ask.Allowed = engine.TokenSetOfBits(nearly)
	done := &Done{Pass: 1, Took: 1, Items: []ItemResult{{Job: 1 << 40, Output: &engine.TokenOutput{Answer: &answer}}}}
	for _, c := range []struct {
		name string
		msg  Message
	}{{"submit-32", submit(32)}, {"submit-100k", submit(100_000)}, {"allowed-147k-of-152k", open}, {"done", done}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(Encode(c.msg)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
