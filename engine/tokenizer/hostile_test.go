//go:build cgo

package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/text"
)

const (
	hostileMemory = 1 << 30          // bytes that any hostile input may take at its highest, the stack included
	hostileTime   = 60 * time.Second // the bounds are of some seconds of processor time; the rest is for a busy machine
)

// bounded runs f and holds what it takes to the bounds.
func bounded(t *testing.T, f func()) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skipf("needs Linux's resettable peak of resident memory: %v", err)
	}
	before, start := peakMemory(t), time.Now()
	f()
	took, grew := time.Since(start), peakMemory(t)-before
	if took > hostileTime || grew > hostileMemory {
		t.Errorf("took %v and %d MiB", took, grew>>20)
	}
}

func peakMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("/proc/self/status has no VmHWM")
	return 0
}

// loops makes a template that runs body a million times.
func loops(before, body, after string) string {
	return before + "{% for i in range(1000) %}{% for j in range(1000) %}" + body + "{% endfor %}{% endfor %}" + after
}

// TestHostileTemplates renders templates that take without end. Each ends with an error that names its
// file, or with a text.
func TestHostileTemplates(t *testing.T) {
	nested := loops("{% set ns = namespace(x=[]) %}", "{% set ns.x = [ns.x] %}", "")
	pair := "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}"
	self := "{% set ns = namespace() %}{% set ns.x = ns %}"
	defer func(was time.Duration) { templateTime = was }(templateTime)
	templateTime = 200 * time.Millisecond
	big := "{% set big = 'ab ' * 5000000 %}"
	for _, c := range []struct{ name, template, want string }{
		{"batch", "{{ [1,2]|batch(9000000000,0)|list }}", "MiB of memory"},
		{"slice", "{{ [1,2]|slice(9000000000)|list }}", "MiB of memory"},
		{"slice with a fill", "{{ [1,2]|slice(9000000000,0)|list }}", "MiB of memory"},
		{"list of a repeated list", "{{ ([1] * 1000000000000)|list }}", "MiB of memory"},
		{"search in a repeated list", "{{ 2 in [1] * 1000000000000000 }}", "takes more than"},
		{"sum of a repeated list", "{{ ([1] * 1000000000000000)|sum }}", "takes more than"},
		{"last of nothing, repeated", "{{ ([] * 1000000000000000)|last }}", ""},
		{"repeated text", "{{ 'x' * 99999999 }}", "MiB of memory"},
		{"indent", "{{ 'a\nb'|indent(9000000000) }}", "MiB of memory"},
		{"indent of tojson", "{{ [[1]]|tojson(indent=9000000000) }}", "MiB of memory"},
		{"separators of tojson", big + "{{ range(10000)|list|tojson(separators=[big, big]) }}", "MiB of memory"},
		{"width of format", "{{ '%999999999d'|format(1) }}", ""},
		{"width of str.format", "{{ '{:>999999999}'.format(1) }}", ""},
		{"join", big + "{{ range(10000)|join(big) }}", "MiB of memory"},
		{"replace", "{% set a = 'a' * 30000 %}{{ a|replace('a', a) }}", "MiB of memory"},
		{"str.replace", "{% set a = 'a' * 30000 %}{{ a.replace('a', a) }}", "MiB of memory"},
		{"doubling", "{% set ns = namespace(x='ab') %}" + loops("", "{% set ns.x = ns.x ~ ns.x %}", ""), "MiB of memory"},
		{"output", big + loops("", "{{ big }}", ""), "MiB of memory"},
		{"captures", big + loops("{% set ns = namespace(x=[]) %}", "{% set c %}{{ big }}{% endset %}{% set ns.x = ns.x + [c] %}", ""), "MiB of memory"},
		{"strftime", "{{ strftime_now('%c' * 10000000) }}", "MiB of memory"},
		{"zip", "{{ range(100000)|zip([1]*1000000000)|list|length }}", ""},
		{"groupby", "{% set big = (range(100000)|list * 1000) %}{{ big|list }}", "MiB of memory"},
		{"long work on a text", big + loops("", "{% if big|upper == 'x' %}{% endif %}", ""), "takes more than"},
		{"long search", big + loops("", "{% if 'zz' in big %}{% endif %}", ""), "takes more than"},
		{"long comparison", "{% set a = 'ab ' * 3000000 %}{% set b = 'ab ' * 3000000 %}" + loops("", "{% if a == b ~ '' %}{% endif %}", ""), "takes more than"},
		{"tojson again and again", "{% set big = range(100000)|list %}" + loops("", "{% set x = big|tojson %}", ""), "takes more than"},
		{"nested value, dropped", nested, ""},
		{"nested value, printed", nested + "{{ ns.x }}", ""},
		{"nested value, as text", nested + "{{ ns.x ~ '' }}", ""},
		{"nested value, tojson", nested + "{{ ns.x|tojson }}", ""},
		{"nested value, compared", nested + "{% set a = ns.x %}{% set ns.x = [] %}" + nested + "{{ a == ns.x }}", ""},
		{"nested value, as a key", nested + "{{ [ns.x, ns.x]|unique|list|length }}", ""},
		{"itself, printed", self + "{{ ns }}", "nested too deep"},
		{"itself, as text", self + "{{ ns ~ '' }}", "nested too deep"},
		{"itself, tojson", self + "{{ ns|tojson }}", "nested too deep"},
		{"itself, joined", self + "{{ [ns, ns]|join }}", "nested too deep"},
		{"itself, sorted", self + pair + "{{ [a, b, ns]|sort|list }}", "nested too deep"},
		{"each other, compared", pair + "{{ a == b }}", "nested too deep"},
		{"each other, unique", pair + "{{ [a, b]|unique|list }}", "nested too deep"},
		{"macros", "{% macro m(n) %}{{ m(n ~ n) }}{% endmacro %}{{ m('ab') }}", ""},
		{"sums in the source", "{{ 1" + strings.Repeat("+1", 100_000) + " }}", ""},
		{"joins in the source", "{{ 1" + strings.Repeat("~1", 100_000) + " }}", ""},
		{"brackets in the source", "{{ " + strings.Repeat("[", 100_000), "line 1"},
		{"not in the source", "{{ " + strings.Repeat("not ", 50_000) + "1 }}", ""},
		{"minus in the source", "{{ " + strings.Repeat("-", 100_000) + "1 }}", ""},
		{"attributes in the source", "{{ messages" + strings.Repeat(".a", 100_000) + " }}", ""},
		{"filters in the source", "{{ 1" + strings.Repeat("|d", 100_000) + " }}", ""},
		{"calls in the source", "{{ x" + strings.Repeat("()", 100_000) + " }}", ""},
		{"and in the source", "{{ 1" + strings.Repeat(" and 1", 40_000) + " }}", ""},
		{"comparisons in the source", "{{ 1" + strings.Repeat("<1", 100_000) + " }}", ""},
		{"ternaries in the source", "{{ 1" + strings.Repeat(" if 1 else 1", 20_000) + " }}", ""},
		{"elif in the source", "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 20_000) + "{% endif %}", ""},
		{"if in the source", strings.Repeat("{% if 1 %}", 10_000) + strings.Repeat("{% endif %}", 10_000), ""},
		{"for in the source", strings.Repeat("{% for x in [1] %}", 8_000) + strings.Repeat("{% endfor %}", 8_000), ""},
		{"set in the source", strings.Repeat("{% set x %}", 10_000) + strings.Repeat("{% endset %}", 10_000), ""},
		{"filter blocks in the source", strings.Repeat("{% filter upper %}", 8_000) + strings.Repeat("{% endfilter %}", 8_000), ""},
		{"long source", strings.Repeat(" ", MaxTemplate+1), "want at most 262144"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := NewBytes()
			tok.chat = newChat(&files{templates: map[string]namedTemplate{"default": {c.template, "chat_template.jinja"}}})
			for range 2 { // what one rendering leaves behind must not harm the next
				bounded(t, func() {
					_, err := tok.RenderChat(json.RawMessage(`[]`), text.ChatOptions{})
					if err != nil && !strings.HasPrefix(err.Error(), "chat template of chat_template.jinja: ") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
						t.Errorf("got %v, want an error with %q that names the file", err, c.want)
					}
				})
			}
		})
	}
}

// TestTemplatesThatLeakAreStopped holds that values that refer to themselves, which nothing frees, do
// not add up.
func TestTemplatesThatLeakAreStopped(t *testing.T) {
	tok := rendererOf("{% set ns = namespace(big='x' * (1000000 + messages|length)) %}{% set ns.x = ns %}.")
	var err error
	renderings := 0
	for ; renderings < 10 && err == nil; renderings++ {
		_, err = tok.RenderChat(json.RawMessage(`[]`), text.ChatOptions{})
	}
	if err == nil || !strings.Contains(err.Error(), "refers to itself") {
		t.Errorf("after %d renderings: %v", renderings, err)
	}
	tok = rendererOf("{% set ns = namespace(x='') %}{% for i in range(1000) %}{% set ns.x = ns.x ~ i %}{% endfor %}{{ ns.x }}")
	for i := range 1000 {
		if _, err := tok.RenderChat(json.RawMessage(`[]`), text.ChatOptions{}); err != nil {
			t.Fatalf("rendering %d of a template without cycles: %v", i, err)
		}
	}
}

// TestHostileTokenizers opens tokenizers that would take without end.
func TestHostileTokenizers(t *testing.T) {
	source, err := os.ReadFile("testdata/tokenizers/llama3/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	replace := func(from, to string) string {
		if !strings.Contains(string(source), from) {
			t.Fatalf("the tokenizer has no %s", from)
		}
		return strings.Replace(string(source), from, to, 1)
	}
	sequences := strings.Repeat(`{"type":"Sequence","normalizers":[`, 60) + strings.Repeat("]}", 60)
	var added strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&added, `{"id":%d,"content":"<|added %d|>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},`, 100_000+i, i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"id near 2^32", replace(`"vocab":{`, `"vocab":{"huge":4294967290,`), `"huge" has the id 4294967290`},
		{"id of 10^8", replace(`"vocab":{`, `"vocab":{"huge":100000000,`), `"huge" has the id 100000000`},
		{"added id near 2^32", replace(`"vocab":{`, `"vocab":{"huge":4294967295,`), `"huge" has the id 4294967295`},
		{"nested normalizers", replace(`"normalizer":null`, `"normalizer":`+sequences), ""},
		{"nested JSON", strings.Repeat("[", 1_000_000), ""},
		{"many added tokens", replace(`"added_tokens":[`, `"added_tokens":[`+added.String()), "has 60003 added_tokens; the limit is 16384"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "tokenizer.json")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			bounded(t, func() {
				tok, err := Open(dir)
				if err == nil {
					tok.Close()
				}
				if err != nil && !strings.Contains(err.Error(), path) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v, want an error with %q that names the file", err, c.want)
				}
			})
		})
	}
}

// TestExpandingNormalizer holds a tokenizer that makes a long text of every character to its memory:
// the text that Open tries is too much for it.
func TestExpandingNormalizer(t *testing.T) {
	source, err := os.ReadFile("testdata/tokenizers/llama2/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(source), `"content":"▁"`, `"content":"`+strings.Repeat("x", 1_000_000)+`"`, 1)
	if text == string(source) {
		t.Fatal("the normalizer was not found")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	bounded(t, func() {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "MiB of memory") {
			t.Errorf("got %v", err)
		}
	})
}

// TestFilesThatAreNone opens checkpoints in which a file is a pipe, a directory or a device.
func TestFilesThatAreNone(t *testing.T) {
	model, err := os.ReadFile("testdata/tokenizers/qwen2/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
	}
	for _, name := range []string{
		"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json",
		"chat_template.jinja", "chat_template.json",
	} {
		for kind, create := range kinds {
			dir := t.TempDir()
			if err := create(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if name != "tokenizer.json" {
				if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), model, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			failed := make(chan error, 1)
			go func() { // ends with Open
				_, err := Open(dir)
				failed <- err
			}()
			select {
			case err := <-failed:
				if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)+" is a "+kind) {
					t.Errorf("%s as a %s: %v", name, kind, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s as a %s: no answer", name, kind)
			}
		}
	}
}

// FuzzOpenModel makes tokenizers of any text: an error, or a tokenizer that encodes and decodes or says
// why not, never a crash.
func FuzzOpenModel(f *testing.F) {
	for _, name := range shapes {
		text, err := os.ReadFile(filepath.Join("testdata/tokenizers", name, "tokenizer.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"version":"1.0","added_tokens":[],"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+b"},"behavior":"Isolated","invert":false},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`))
	f.Add([]byte(`{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"?"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > hostileTime {
				t.Errorf("took %v", took)
			}
		}()
		m, parts, err := openModel(text)
		if err != nil {
			return
		}
		defer m.Close()
		tok, err := newTokenizer(m, parts, &files{})
		if err != nil {
			return
		}
		ids, err := tok.Encode(t.Context(), "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa the user's 42\n\u4e2d <s>", true)
		if err != nil {
			return
		}
		if _, err := tok.Decode(ids, false); err != nil {
			return
		}
		for _, id := range ids {
			tok.TokenText(id)
		}
	})
}
