package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func rules() Rules {
	return Rules{MaxLine: 1 << 10, Serves: func(path string) bool { return path == "/v1/completions" || path == "/v1/score" }}
}

func request(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/completions","body":{"prompt":"a"}}`, id)
}

// TestLines: every way for a line to be wrong has its code, its field and its number, and the lines behind it are read.
func TestLines(t *testing.T) {
	for _, c := range []struct{ line, code, param string }{
		{`{"custom_id":`, "invalid_json_line", ""},
		{`[1]`, "invalid_json_line", ""},
		{`{"custom_id":7,"method":"POST","url":"/v1/completions","body":{"prompt":"a"}}`, "invalid_custom_id", "custom_id"},
		{`{"custom_id":{},"method":"POST","url":"/v1/completions","body":{"prompt":"a"}}`, "invalid_custom_id", "custom_id"},
		{`{"custom_id":"x","method":1,"url":"/v1/completions","body":{}}`, "invalid_method", "method"},
		{`{"custom_id":"x","method":"POST","url":[],"body":{}}`, "invalid_url", "url"},
		{request("a") + request("b"), "invalid_json_line", ""},
		{"{\"custom_id\":\"\xff\"}", "invalid_json_line", ""},
		{`{"method":"POST","url":"/v1/completions","body":{}}`, "missing_required_parameter", "custom_id"},
		{`{"custom_id":"","method":"POST","url":"/v1/completions","body":{}}`, "missing_required_parameter", "custom_id"},
		{request(strings.Repeat("x", 513)), "invalid_custom_id", "custom_id"},
		{`{"custom_id":"x","method":"GET","url":"/v1/completions","body":{}}`, "invalid_method", "method"},
		{`{"custom_id":"x","url":"/v1/completions","body":{}}`, "invalid_method", "method"},
		{`{"custom_id":"x","method":"POST","body":{}}`, "missing_required_parameter", "url"},
		{`{"custom_id":"x","method":"POST","url":"/v1/models","body":{}}`, "invalid_url", "url"},
		{`{"custom_id":"x","method":"POST","url":"/v1/score","body":{}}`, "mismatched_url", "url"},
		{`{"custom_id":"x","method":"POST","url":"/v1/completions"}`, "missing_required_parameter", "body"},
		{`{"custom_id":"x","method":"POST","url":"/v1/completions","body":[]}`, "missing_required_parameter", "body"},
		{`{"custom_id":"x","method":"POST","url":"/v1/completions","body":{"stream":true}}`, "invalid_request", "body.stream"},
		{`{"custom_id":"x","method":"POST","url":"/v1/completions","body":{"prompt":"` + strings.Repeat("y", 1<<10) + `"}}`, "line_too_long", ""},
		{request("first"), "duplicate_custom_id", "custom_id"},
	} {
		of := rules()
		of.Endpoint = "/v1/completions"
		file := "\uFEFF" + request("first") + "\r\n \n" + c.line + "\n" + request("last")
		totals, wrong, err := Check(strings.NewReader(file), of, 10, nil)
		if err != nil || len(wrong) != 1 || wrong[0].Code != c.code || wrong[0].Param != c.param || wrong[0].Line != 3 || totals.Lines != 2 {
			t.Errorf("%.60s: %+v %+v %v, want %s of %q in line 3 among 2 lines", c.line, totals, wrong, err, c.code, c.param)
		}
		for _, e := range wrong {
			if strings.Contains(e.Message, "json:") || strings.Contains(e.Message, "Go ") || strings.Contains(e.Message, "unmarshal") {
				t.Errorf("%.60s: %s", c.line, e.Message)
			}
		}
	}
}

func TestWholeFiles(t *testing.T) {
	for _, c := range []struct{ file, code string }{
		{"", "empty_file"}, {"\n \n", "empty_file"}, {request("a") + "\n" + request("b") + "\n" + request("c"), "too_many_requests"},
	} {
		if _, wrong, err := Check(strings.NewReader(c.file), rules(), 2, nil); err != nil || len(wrong) != 1 || wrong[0].Code != c.code {
			t.Errorf("%q: %+v %v, want %s", c.file, wrong, err, c.code)
		}
	}
	_, wrong, _ := Check(strings.NewReader(strings.Repeat("x\n", 1000)), rules(), 2, nil)
	if len(wrong) != maxErrors {
		t.Errorf("%d errors of 1000 are kept", len(wrong))
	}
	broken := errors.New("broken")
	if _, _, err := Check(io.MultiReader(strings.NewReader(request("a")+"\n"), failing{broken}), rules(), 2, nil); err != broken {
		t.Errorf("a file that cannot be read gives %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// answers are two answers and a line without one, and the keys of all.
func answers(t *testing.T) (lines []*Line, file []byte) {
	t.Helper()
	for r := NewReader(strings.NewReader(request("a\n\"")+"\n"+request("b")+"\n"+request("c")), rules()); ; {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	file = append(file, lines[0].Answer(&Reply{Status: 200, RequestID: "r", Body: []byte(`{"x": "` + strings.Repeat("long ", 9000) + "\"}\n")})...)
	file = append(file, lines[1].Answer(&Reply{Status: 400, Body: []byte(`no JSON`)})...)
	return lines, append(file, lines[2].Unanswered("batch_expired", "late")...)
}

// TestScan: wherever an answer file is cut, the answers before the cut count, and each once.
func TestScan(t *testing.T) {
	lines, file := answers(t)
	for _, text := range slices.Collect(bytes.Lines(file)) {
		var a struct {
			Response *struct{ Body any }
			Error    any
		}
		if err := json.Unmarshal(text, &a); err != nil || (a.Response == nil) == (a.Error == nil) {
			t.Errorf("%.200s: %v", text, err)
		}
	}
	ends := map[int]int{0: 0}
	for i, b := range file {
		if b == '\n' {
			ends[i+1] = len(ends)
		}
	}
	whole, n := 0, 0
	for cut := range len(file) + 1 {
		if count, end := ends[cut]; end {
			whole, n = cut, count
		}
		if cut > 100 && cut < len(file)-500 && cut != whole {
			continue // in the long answer
		}
		done := Answered{}
		got, err := Scan(bytes.NewReader(file[:cut]), done)
		if err != nil || got != int64(whole) || len(done) != n {
			t.Fatalf("cut at %d: %d bytes of %d answers, %v; want %d of %d", cut, got, len(done), err, whole, n)
		}
	}
	done := Answered{}
	if _, err := Scan(bytes.NewReader(file), done); err != nil || !done[lines[0].Key()].OK || done[lines[1].Key()].OK || done[lines[2].Key()].OK {
		t.Errorf("%v %v", done, err)
	}
	if _, err := Scan(bytes.NewReader(append(bytes.Clone(file), file...)), Answered{}); err != ErrTwice {
		t.Errorf("answers twice: %v", err)
	}
	if _, err := Scan(strings.NewReader("Dear diary\n"), Answered{}); err != ErrForeign {
		t.Errorf("another file: %v", err)
	}
	damaged := append(bytes.Clone(file[:ends1(file)]), make([]byte, 4096)...)
	if got, err := Scan(bytes.NewReader(append(damaged, '\n')), Answered{}); err != nil || got != int64(ends1(file)) {
		t.Errorf("zeros behind an answer: %d %v", got, err)
	}
}

func ends1(file []byte) int { return bytes.IndexByte(file, '\n') + 1 }

// TestResumed: answers count towards the file whose lines they are to, and to no other.
func TestResumed(t *testing.T) {
	_, file := answers(t)
	done := Answered{}
	if _, err := Scan(bytes.NewReader(file), done); err != nil {
		t.Fatal(err)
	}
	same := request("a\n\"") + "\n" + request("b") + "\n" + request("c") + "\n" + request("d")
	if totals, _, err := Check(strings.NewReader(same), rules(), 10, done); err != nil || totals != (Totals{4, 3, 2}) {
		t.Errorf("the same file: %+v %v", totals, err)
	}
	for _, other := range []string{strings.Replace(same, `"prompt":"a"`, `"prompt":"b"`, 1), request("d")} {
		if _, _, err := Check(strings.NewReader(other), rules(), 10, done); err == nil {
			t.Errorf("answers to another file are taken for those of %s", other)
		}
	}
}

func TestAgain(t *testing.T) {
	for _, c := range []struct {
		reply  Reply
		faults int
		again  bool
	}{
		{Reply{Status: 200}, 0, false},
		{Reply{Status: 400}, 0, false},
		{Reply{Status: 404}, 0, false},
		{Reply{Status: 429, RetryAfter: time.Second}, 99, true},
		{Reply{Status: 503, RetryAfter: time.Hour}, 0, true},
		{Reply{Status: 500}, 0, true},
		{Reply{Status: 500}, maxFaults, false},
		{Reply{Status: 500, NoRetry: true}, 0, false},
	} {
		for tries := range 100 {
			if wait, again := c.reply.Again(tries, c.faults); again != c.again || again && (wait < leastWait || wait > mostWait) {
				t.Errorf("%+v after %d tries and %d faults: %v %v", c.reply, tries, c.faults, wait, again)
			}
		}
	}
}
