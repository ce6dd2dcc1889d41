package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// FuzzIDList holds the reader of lists to encoding/json.
func FuzzIDList(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,2]`, "[ 1 ,\t2\r\n]", `[4294967295]`, `[4294967296]`, `[00]`, `[0]`, `[-1]`, `[1.5]`, `[1e3]`, `[1`, `[1,]`, `[,1]`, `[1 2]`, `[12345678901]`, `[18446744073709551617]`, `[1],[2]`, `["1"]`, `[[1]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ids, n := idList(raw)
		var want []uint32
		if n > 0 {
			if err := json.Unmarshal(raw[:n], &want); err != nil || !slices.Equal(ids, want) {
				t.Fatalf("%q is read as %v; it is %v, %v", raw[:n], ids, want, err)
			}
		} else if json.Unmarshal(raw, &want) == nil && len(raw) > 0 && raw[0] == '[' && !bytes.Contains(raw, []byte("null")) {
			t.Fatalf("%q is not read; it is %v", raw, want)
		}
	})
}

// longBody is a request whose prompt may be long.
type longBody struct {
	Model     string             `json:"model"`
	Prompt    Prompt             `json:"prompt" required:"true"`
	N         int                `json:"n" default:"1" min:"1"`
	MaxTokens *int               `json:"max_tokens" min:"0"`
	Stop      Strings            `json:"stop" items:"2" each:"4"`
	StopIDs   TokenList          `json:"stop_token_ids" items:"2"`
	Bias      map[string]float64 `json:"logit_bias"`
	User      string             `json:"user" bytes:"256"`
}

func (b *longBody) Bulk() (string, *[][]uint32) { return "prompt", &b.Prompt.Tokens }

// FuzzBulk: what is read by hand changes nothing of what a body is found to be.
func FuzzBulk(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","prompt":[1,2],"max_tokens":1}`, `{"prompt":[[1],[ ],[2,3]],"n":2}`, ` { "logit_bias" : { "7" : 1 } , "prompt" : [ 1 ] } `,
		`{"prompt":[1],"prompt":[2]}`, `{"prompt":[1],"PROMPT":null}`, `{"Prompt":[1]}`, `{"user":"\"prompt\":[1]","prompt":[2]}`, `{"stop":["]","\\"],"prompt":[3]}`,
		`{"a":{"prompt":[1]},"prompt":"x"}`, `{"a":[{"b":"}"}],"prompt":[1]}`, `{"prompt":[1]`, `{"prompt":[1]}}`, `{"prompt":[01]}`, `{"prompt":[1],}`, `{,"prompt":[1]}`, `{"a" "b","prompt":[1]}`,
		`{"a":,"prompt":[1]}`, `{"a"::1,"prompt":[1]}`, `{"a":]"prompt":[1]}`, `{"pr\u006fmpt":[1]}`, `[{"prompt":[1]}]`, `{"prompt":[]}`, `{"prompt":[[]]}`, `{"prompt":[[1],2]}`, `{"prompt":[1],"max_tokens":"x"}`, `{"a":"`, `{"a":"\`, `{1:2,"prompt":[1]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want longBody
		fields.SetDefaults(&want)
		refused, wanted := Decode(body, &got), decodeWhole(body, &want)
		if !reflect.DeepEqual(refused, wanted) {
			t.Fatalf("%q: %+v, want %+v", body, refused, wanted)
		}
		if refused == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, want %+v", body, got, want)
		}
	})
}

// TestBulkIsReadByHand: bodies as clients write them go the short way.
func TestBulkIsReadByHand(t *testing.T) {
	for body, want := range map[string][][]uint32{
		`{"model":"m","prompt":[1,151935],"max_tokens":1}`:                                     {{1, 151935}},
		`{"stream_options":{"include_usage":true},"stop":["]","\"}"],"prompt":[[7], [8, 9] ]}`: {{7}, {8, 9}},
		"{\n  \"prompt\": [\n    1,\n    2\n  ]\n}\n":                                          {{1, 2}},
	} {
		var in longBody
		if !decodeBulk([]byte(body), &in) || !reflect.DeepEqual(in.Prompt.Tokens, want) {
			t.Errorf("%s: %v", body, in.Prompt.Tokens)
		}
	}
}
