package load

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func generate(t *testing.T, s Spec, a Arrivals, seed uint64) []Request {
	t.Helper()
	requests, err := s.Generate(a, seed)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

func TestWorkloads(t *testing.T) {
	for _, c := range []struct {
		spec                     Spec
		requests, users          int
		minTokens, maxTokens     int
		leastMeanLen, mostMeanLn float64
	}{
		{PostRecommendation(), 1000, 20, 11150, 17150, 13000, 15300},
		{CreditVerification(), 60, 60, 40000, 60000, 47000, 53000},
		{ShortPrompts(), 100, 100, 150, 150, 150, 150},
	} {
		t.Run(c.spec.Name, func(t *testing.T) {
			requests := generate(t, c.spec, Arrivals{Rate: math.Inf(1)}, 7)
			users := map[string]uint64{}
			var sum float64
			for _, q := range requests {
				n := q.Prompt.Len()
				if n < c.minTokens || n > c.maxTokens {
					t.Fatalf("a prompt of %d tokens is outside %d..%d", n, c.minTokens, c.maxTokens)
				}
				if p, ok := users[q.User]; ok && p != q.Prompt.Shape.Prefix {
					t.Fatalf("%s has two profiles", q.User)
				}
				users[q.User] = q.Prompt.Shape.Prefix
				sum += float64(n)
			}
			if len(requests) != c.requests || len(users) != c.users {
				t.Fatalf("%d requests of %d users, want %d of %d", len(requests), len(users), c.requests, c.users)
			}
			if mean := sum / float64(len(requests)); mean < c.leastMeanLen || mean > c.mostMeanLn {
				t.Fatalf("mean length %.0f is outside %.0f..%.0f", mean, c.leastMeanLen, c.mostMeanLn)
			}
		})
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	write := func(seed uint64) string {
		var b bytes.Buffer
		a := Arrivals{Rate: 5, Sessions: true, Gap: 100 * time.Millisecond}
		if err := WriteTrace(&b, generate(t, PostRecommendation(), a, seed)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if first, again := write(1), write(1); first != again {
		t.Error("the same seed gave two traces")
	}
	if write(1) == write(2) {
		t.Error("two seeds gave the same trace")
	}
}

func TestRateKeepsPrompts(t *testing.T) {
	shapes := func(a Arrivals) []Shape {
		var all []Shape
		for _, q := range generate(t, PostRecommendation(), a, 3) {
			all = append(all, q.Prompt.Shape)
		}
		slices.SortFunc(all, func(a, b Shape) int {
			if a.Suffix < b.Suffix {
				return -1
			}
			return 1
		})
		return all
	}
	if !reflect.DeepEqual(shapes(Arrivals{Rate: math.Inf(1)}), shapes(Arrivals{Rate: 2})) {
		t.Error("prompts changed with the rate")
	}
}

func TestArrivalRate(t *testing.T) {
	spec, err := PostRecommendation().Scale(0.01, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []Arrivals{{Rate: 8}, {Rate: 8, Sessions: true, Gap: time.Millisecond}} {
		requests := generate(t, spec, a, 1)
		if !slices.IsSortedFunc(requests, func(a, b Request) int { return int(a.At - b.At) }) {
			t.Fatalf("%+v: not in order of time", a)
		}
		rate := float64(len(requests)) / requests[len(requests)-1].At.Seconds()
		if rate < 7 || rate > 9.2 {
			t.Errorf("%+v: %.2f requests a second", a, rate)
		}
	}
}

func TestInfiniteRateTakesUsersInTurn(t *testing.T) {
	for i, q := range generate(t, PostRecommendation(), Arrivals{Rate: math.Inf(1)}, 1)[:40] {
		if want := fmt.Sprintf("user-%d", i%20); q.At != 0 || q.User != want {
			t.Fatalf("request %d is of %s at %v", i, q.User, q.At)
		}
	}
}

func TestScaleKeepsRatios(t *testing.T) {
	s, err := PostRecommendation().Scale(0.1, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{Name: "post-recommendation", Users: 10, PerUser: 50, Item: 15, Profile: Lengths{Mean: 1400, Deviation: 300, Min: 1100, Max: 1700}}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := PostRecommendation().Scale(bad, 1); err == nil {
			t.Errorf("scale %v was taken", bad)
		}
	}
}

func TestImpossibleRates(t *testing.T) {
	for _, rate := range []float64{0, -2, math.NaN(), 1e9} {
		if _, err := CreditVerification().Generate(Arrivals{Rate: rate}, 1); err == nil || !strings.Contains(err.Error(), "invalid request rate") {
			t.Errorf("rate %v: error %v", rate, err)
		}
	}
}

func TestShapesShareExactlyTheirPrefix(t *testing.T) {
	a := Shape{Prefix: 1, PrefixTokens: 50, Suffix: 1, SuffixTokens: 20}
	b := Shape{Prefix: 1, PrefixTokens: 50, Suffix: 2, SuffixTokens: 20}
	c := Shape{Prefix: 2, PrefixTokens: 50, Suffix: 1, SuffixTokens: 20}
	x, y, z := a.TokenIDs(DefaultVocabulary), b.TokenIDs(DefaultVocabulary), c.TokenIDs(DefaultVocabulary)
	if len(x) != 70 || !slices.Equal(x[:50], y[:50]) || slices.Equal(x[50:], y[50:]) || slices.Equal(x[:50], z[:50]) {
		t.Error("token ids do not follow the shape")
	}
	if !slices.Equal(x[50:], z[50:]) {
		t.Error("the same suffix has other tokens after another prefix")
	}
	if n := len(strings.Fields(a.Words())); n != 70 {
		t.Errorf("%d words", n)
	}
	if i := slices.Compact(slices.Sorted(slices.Values(words))); len(i) != len(words) {
		t.Errorf("%d words are listed twice", len(words)-len(i))
	}
}

func TestTraceRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	requests := generate(t, PostRecommendation(), Arrivals{Rate: 3}, 5)
	requests[0].Prompt = Prompt{Text: "Is \"this\"\nof interest?"}
	requests[1].Model = "other"
	requests[1].Prompt = Prompt{Tokens: []uint32{0, 1<<32 - 1}}
	requests[2].Allowed = []uint32{4, 9}
	requests[3].MaxTokens = 16
	for i := range requests {
		requests[i].At += time.Duration(rng.IntN(1000))
	}
	slices.SortFunc(requests, func(a, b Request) int { return int(a.At - b.At) })
	var b bytes.Buffer
	if err := WriteTrace(&b, requests); err != nil {
		t.Fatal(err)
	}
	back, err := ReadTrace(&b, "t")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, requests) {
		t.Error("the trace came back changed")
	}
}

func TestTraceErrorsNameTheLine(t *testing.T) {
	good := `{"at":1,"prompt":"x"}` + "\n\n"
	for line, want := range map[string]string{
		`{"at":2,"prompt":"x"`:            "unexpected EOF",
		`{"at":2,"prompt":"x","promt":1}`: "promt",
		`{"prompt":"x"}`:                  `missing "at"`,
		`{"at":-1,"prompt":"x"}`:          "invalid at -1",
		`{"at":0.5,"prompt":"x"}`:         "is before",
		`{"at":2}`:                        `want "prompt" or "shape"`,
		`{"at":2,"prompt":"x","shape":{"prefix_tokens":1}}`:       `want "prompt" or "shape"`,
		`{"at":2,"prompt":""}`:                                    "empty",
		`{"at":2,"prompt":[]}`:                                    "empty",
		`{"at":2,"prompt":[-1]}`:                                  "want a string or",
		`{"at":2,"prompt":3}`:                                     "want a string or",
		`{"at":2,"shape":{"prefix_tokens":-1,"suffix_tokens":3}}`: "invalid prompt of",
		`{"at":2,"shape":{"prefix_tokens":99999999999}}`:          "invalid prompt of",
		`{"at":2,"prompt":"x","max_tokens":0}`:                    "max_tokens 0",
		`{"at":2,"prompt":"x"} {}`:                                "several JSON values",
		`[]`:                                                      "it is a JSON array; it must be an object",
		`{"at":2,"shape":{"prefix":1,"prefix_tokens":1,"suffix":1,"suffix_tokens":1e400}}`: "suffix_tokens",
	} {
		_, err := ReadTrace(strings.NewReader(good+line+"\n"), "trace.jsonl")
		var fault *LineError
		if !errors.As(err, &fault) || fault.Line != 3 || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "trace.jsonl:3: ") {
			t.Errorf("%s: error %v, want line 3 and %q", line, err, want)
		}
	}
	if _, err := ReadTrace(strings.NewReader("\n"), "empty.jsonl"); err == nil || !strings.Contains(err.Error(), "empty.jsonl") {
		t.Errorf("an empty trace: error %v", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"at":0,"user":"a","prompt":"Is this post of interest?","max_tokens":1}`))
	f.Add([]byte(`{"at":0.25,"user":"b","prompt":[17,4,99],"allowed_token_ids":[5,6]}` + "\n" + `{"at":1e3,"prompt":[0]}`))
	f.Add([]byte(`{"at":1.5,"user":"c","shape":{"prefix":3,"prefix_tokens":14000,"suffix":8,"suffix_tokens":150}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		requests, err := ReadTrace(bytes.NewReader(data), "f")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteTrace(&b, requests); err != nil {
			t.Fatal(err)
		}
		back, err := ReadTrace(&b, "f")
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		for i, q := range back {
			if len(q.Allowed) == 0 {
				back[i].Allowed, requests[i].Allowed = nil, nil
			}
		}
		if !reflect.DeepEqual(back, requests) {
			t.Fatalf("came back changed: %+v, %+v", back, requests)
		}
	})
}
