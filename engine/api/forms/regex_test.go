package forms

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNarrowed(t *testing.T) {
	for regex, want := range map[string]string{
		``:                   ``,
		`a+[b-d]|\.\\d\n`:    `a+[b-d]|\.\\d\n`,
		`\d{3}-\w`:           `[0-9]{3}-[0-9A-Za-z_]`,
		`\D\W\S`:             `\D\W\S`,
		`[\d.]`:              `[[0-9].]`,
		`[^\d.]\d`:           `[^\d.][0-9]`,
		`[^\D]`:              `[^[^0-9]]`,
		`[^a[^\d\D]]\s`:      `[^a[^[0-9]\D]][\t\n\x0B\f\r ]`,
		`[]\d]\d`:            `[][0-9]][0-9]`,
		`[^]\d]\d`:           `[^]\d][0-9]`,
		`\[\d\]`:             `\[[0-9]\]`,
		`[\]\d]`:             `[\][0-9]]`,
		`[[:^alpha:]\d]]\pL`: `[[:^alpha:][0-9]]]\pL`,
		`\`:                  `\`,
		`[`:                  `[`,
		`[^`:                 `[^`,
	} {
		if got := narrowRegex(regex); got != want {
			t.Errorf("%s: %s; want %s", regex, got, want)
		}
	}
}

// TestNarrowedMatches holds that what is left matches under Go's reading, of ASCII, and under Unicode's.
func TestNarrowedMatches(t *testing.T) {
	unicode := strings.NewReplacer(`\d`, `\p{Nd}`, `\D`, `\P{Nd}`)
	for _, regex := range []string{`\d`, `\D`, `[\d.]`, `[^\d.]`, `[^\D]`, `[\Dx]`} {
		for _, text := range []string{"0", "9", "٤", "x", ".", "é", "-"} {
			want := regexp.MustCompile("^"+regex+"$").MatchString(text) && regexp.MustCompile("^"+unicode.Replace(regex)+"$").MatchString(text)
			got := regexp.MustCompile("^" + flat.Replace(unicode.Replace(narrowRegex(regex))) + "$").MatchString(text)
			if got != want {
				t.Errorf("%s of %q: %v; want %v", regex, text, got, want)
			}
		}
	}
}

// flat takes classes out of classes, which Go has not.
var flat = strings.NewReplacer(`[[0-9].]`, `[0-9.]`, `[^[^0-9]]`, `[0-9]`)

func TestSchemaPatterns(t *testing.T) {
	schema := `{"allOf":[{"properties":{"pattern":{"type":"string","pattern":"^\\d$"}}},{"patternProperties":{"^\\w$":{"items":{"pattern":"\\s"}}}}],"const":{"pattern":"\\d"},
		"items":{"enum":["\\d"],"pattern":"a"}}`
	const all = `[\\x{0}-\\x{10FFFF}]*`
	want := `{"allOf":[{"properties":{"pattern":{"type":"string","pattern":"^[0-9]$"}}},{"patternProperties":{"^[0-9A-Za-z_]$":{"items":{"pattern":"^` + all + `[\\t\\n\\x0B\\f\\r ]` + all + `$"}}}}],"const":{"pattern":"\\d"},"items":{"enum":["\\d"],"pattern":"^` + all + `a` + all + `$"}}`
	if got, err := tightenSchema("f", schema); got != want || err != nil {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	plain := `{"type":"object","properties":{"a":{"type":"string","pattern":"\\d"}}}`
	closed, _ := tightenSchema("f", plain)
	var got map[string]any
	if err := json.Unmarshal([]byte(closed), &got); err != nil || got["additionalProperties"] != false {
		t.Errorf("%v: %v", err, got)
	}
}

// FuzzTranslated: no pattern makes the translation fail, and what it gives is a text of about its length.
func FuzzTranslated(f *testing.F) {
	for _, seed := range []string{`^(a|[^\d-\]]{2,3}?)$`, `\u{1F600}\ud83d\ude00\cI\x41`, `[\w-.]`, `(?<n>a`, `{}{`, `\p{sc=Greek}`, `\`, `[a-`, `(?`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		regex, err := translateECMA(pattern)
		if err == nil && (!utf8.ValidString(regex) || len(regex) > 200+100*len(pattern)) {
			t.Errorf("%q is translated to %d bytes: %.200q", pattern, len(regex), regex)
		}
	})
}
