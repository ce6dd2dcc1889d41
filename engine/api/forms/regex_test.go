package forms

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
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
		if got := narrowed(regex); got != want {
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
			got := regexp.MustCompile("^" + flat.Replace(unicode.Replace(narrowed(regex))) + "$").MatchString(text)
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
	want := `{"allOf":[{"properties":{"pattern":{"type":"string","pattern":"^[0-9]$"}}},{"patternProperties":{"^[0-9A-Za-z_]$":{"items":{"pattern":"[\\t\\n\\x0B\\f\\r ]"}}}}],"const":{"pattern":"\\d"},"items":{"enum":["\\d"],"pattern":"a"}}`
	if got := tight(schema); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	plain := `{"type":"object","properties":{"a":{"type":"string","pattern":"\\d"}}}`
	var got map[string]any
	if err := json.Unmarshal([]byte(tight(plain)), &got); err != nil || got["additionalProperties"] != false {
		t.Errorf("%v: %v", err, got)
	}
}
