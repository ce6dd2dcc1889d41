// Package field holds the server to what users of other servers reported: each row is a request as somebody sent it
// who then got a crash, a wrong value or a riddle for an answer, and what is right.
package field

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// row is one report.
type row struct {
	saw    string // what the user saw of the other server, in words
	thread string // project and number of the public thread; several: common to many servers
	method string // "": POST
	path   string
	header string // more headers, "Name: value" apart by line ends
	body   string
	status int
	want   map[string]string         // path of the answer, as at reads it: JSON that is there
	check  func(*testing.T, *answer) // what is to be said beside
}

const several = "several"

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
	value  any // of JSON
}

// at is the part of the answer at a path like choices.0.text; # is the length of what is before, and a part that is not there is "missing".
func (a *answer) at(path string) any {
	v := a.value
	for _, key := range strings.Split(path, ".") {
		switch have := v.(type) {
		case map[string]any:
			if key == "#" {
				v = float64(len(have))
				continue
			}
			below, ok := have[key]
			if !ok {
				return "missing"
			}
			v = below
		case []any:
			if key == "#" {
				v = float64(len(have))
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(have) {
				return "missing"
			}
			v = have[i]
		default:
			return "missing"
		}
	}
	return v
}

// number is a number of the answer; NaN where there is none.
func (a *answer) number(path string) float64 {
	if v, ok := a.at(path).(float64); ok {
		return v
	}
	return math.NaN()
}

// word is a text of the answer.
func (a *answer) word(path string) string {
	v, _ := a.at(path).(string)
	return v
}

// list is a list of numbers of the answer, in which what is no number is NaN.
func (a *answer) list(path string) []float64 {
	values, _ := a.at(path).([]any)
	list := make([]float64, len(values))
	for i, v := range values {
		list[i] = math.NaN()
		if n, ok := v.(float64); ok {
			list[i] = n
		}
	}
	return list
}

// send sends what a row says.
func (r row) send(t *testing.T) *answer {
	t.Helper()
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, base(t)+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for line := range strings.SplitSeq(r.header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			request.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{status: response.StatusCode, header: response.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.value)
	return a
}

// ask is the answer to a request that is right.
func ask(t *testing.T, path, body string) *answer {
	t.Helper()
	a := row{path: path, body: body}.send(t)
	if a.status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, a.status, a.text)
	}
	return a
}

// run is the test of a table.
func run(t *testing.T, rows []row) {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.thread == "" || seen[r.saw] {
			t.Errorf("the row %q cites no thread, or is there twice", r.saw)
		}
		seen[r.saw] = true
		t.Run(r.saw, func(t *testing.T) {
			a := r.send(t)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s: %s %.300s\n%d %.2000s", r.thread, r.path, r.body, a.status, a.text)
				}
			})
			if a.status != r.status {
				t.Fatalf("status %d, want %d", a.status, r.status)
			}
			if a.status >= 400 && r.method != http.MethodHead && !strings.Contains(a.text, `"error"`) && !strings.Contains(a.text, `"message"`) {
				t.Error("a refusal without a message")
			}
			for path, want := range r.want {
				if got, _ := json.Marshal(a.at(path)); string(got) != want {
					t.Errorf("%s is %s, want %s", path, got, want)
				}
			}
			if r.check != nil {
				r.check(t, a)
			}
		})
	}
}

// says is a check that the answer has these words.
func says(words ...string) func(*testing.T, *answer) {
	return func(t *testing.T, a *answer) {
		for _, w := range words {
			if !strings.Contains(a.text, w) {
				t.Errorf("the answer does not say %q", w)
			}
		}
	}
}

// near tells whether two numbers are the same but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-4*(1+math.Abs(b)) }
