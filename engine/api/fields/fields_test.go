package fields

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Side  string          `json:"side" enum:"left,right"`
	Other json.RawMessage `json:"other" only:"[]|false"`
	Twice string          `json:"name"`
}

type outer struct {
	inner
	Name  string   `json:"name" bytes:"3" required:"true"`
	Share float64  `json:"share" default:"1" above:"0" max:"1"`
	Count *int     `json:"count" min:"-1" except:"0" says:"1 or more, or -1"`
	N     int      `json:"n" default:"2" min:"1" max:"9"`
	On    bool     `json:"on" default:"true"`
	Words []string `json:"words" items:"2" each:"4"`
	Kinds []string `json:"kinds" enum:"a,b"`
	Not   string   `json:"-"`
}

// TestCheck: values on both sides of each bound.
func TestCheck(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: "", `{"name": "abc", "share": 1, "count": -1, "n": 9, "words": ["a", "abcd"], "kinds": ["a", "b"], "side": "left", "other": [ ]}`: "",
		`{"name": null, "share": null, "count": null, "n": null, "words": null, "kinds": null, "side": null, "other": null}`: "",
		`{"name": "abcd"}`: "name has 4 bytes; the limit is 3", `{"share": 0}`: "share is 0; it must be above 0 and at most 1", `{"share": 1.1}`: "share is 1.1; it must be above 0 and at most 1",
		`{"count": 0}`: "count is 0; it must be 1 or more, or -1", `{"count": -2}`: "count is -2; it must be 1 or more, or -1",
		`{"n": 0}`: "n is 0; it must be 1 to 9", `{"n": 10}`: "n is 10; it must be 1 to 9",
		`{"words": ["a", "b", "c"]}`: "words has 3 entries; the limit is 2", `{"words": ["a", ""]}`: "words: string 1 has 0 bytes; it must have 1 to 4",
		`{"kinds": ["c"]}`: `kinds has "c"; it may have "a" or "b"`, `{"side": "up"}`: `side is "up"; it must be "left" or "right"`,
		`{"other": [1]}`: "other is not supported by this server; leave it out",
	} {
		var o outer
		SetDefaults(&o)
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			t.Fatal(err)
		}
		got := ""
		if wrong := Check(&o); wrong != nil {
			if got = wrong.Message; !strings.HasPrefix(got, wrong.Field) {
				t.Errorf("%s: field %s of %s", body, wrong.Field, got)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
		if body == `{}` && (o.Share != 1 || o.N != 2 || !o.On) {
			t.Errorf("defaults: %+v", o)
		}
	}
}

// TestBody: the schema has every field, with all that its tags say, and no other.
func TestBody(t *testing.T) {
	got, err := json.Marshal(Body(reflect.TypeFor[outer]()))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"properties":{` +
		`"count":{"minimum":-1,"not":{"const":0},"type":["integer","null"]},` +
		`"kinds":{"items":{"enum":["a","b"],"type":"string"},"type":["array","null"]},` +
		`"n":{"default":2,"maximum":9,"minimum":1,"type":["integer","null"]},` +
		`"name":{"description":"At most 3 bytes of UTF-8.","maxLength":3,"type":"string"},` +
		`"on":{"default":true,"type":["boolean","null"]},` +
		`"other":{"deprecated":true,"description":"Not served: a value that would change the answer is refused.","enum":[null,[],false]},` +
		`"share":{"default":1,"exclusiveMinimum":0,"maximum":1,"type":["number","null"]},` +
		`"side":{"enum":["left","right","",null],"type":["string","null"]},` +
		`"words":{"items":{"maxLength":4,"minLength":1,"type":"string"},"maxItems":2,"type":["array","null"]}},` +
		`"required":["name"],"type":"object"}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
