package transcriptions

import (
	"strings"
	"testing"
)

// TestDecodeBody: a sound as JSON, as a data URL or as bare base64.
func TestDecodeBody(t *testing.T) {
	for _, file := range []string{"data:audio/wav;base64,c291bmQ=", "data:;base64,c291bmQ=", "c291bmQ="} {
		r, err := DecodeBody([]byte(`{"model":"m","file":"` + file + `","response_format":"verbose_json","timestamp_granularities":["segment","word"],"language":"en","prompt":"p","temperature":0,"stream":false,"request_id":"r"}`))
		if err != nil || string(r.File) != "sound" || r.Model != "m" || r.Format != "verbose_json" || !r.Words || r.Language != "en" || r.Asker().RequestID != "r" {
			t.Errorf("%s: %+v, %v", file, r, err)
		}
	}
	if r, err := DecodeBody([]byte(`{"file":"c291bmQ="}`)); err != nil || r.Format != "json" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestBodiesThatAreRefused: what has no sound, is fetched, or is answered in something else than JSON.
func TestBodiesThatAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                          "file",
		`{"file":""}`:                 "file is empty; give a sound as data:audio/wav;base64,...",
		`{"file":7}`:                  "file must be a string",
		`{"file":"https://h/a"}`:      "fetches nothing; send the sound itself",
		`{"file":"data:audio/wav,x"}`: "want one of base64",
		`{"file":"!!!!"}`:             "is not base64",
		`{"file":"c291bmQ=","response_format":"srt"}`:                                                     "response_format",
		`{"file":"c291bmQ=","timestamp_granularities":["word"]}`:                                          "needs response_format verbose_json",
		`{"file":"c291bmQ=","response_format":"verbose_json","timestamp_granularities":["letter"]}`:       "want segment or word",
		`{"file":"c291bmQ=","response_format":"verbose_json","timestamp_granularities":["word","a","b"]}`: "timestamp_granularities",
		`{"file":"c291bmQ=","temperature":2}`:                                                             "temperature",
		`{"file":"c291bmQ=","stream":true}`:                                                               "stream",
		`{"file":"c291bmQ=","language":"` + strings.Repeat("x", 65) + `"}`:                                "language",
	} {
		if r, err := DecodeBody([]byte(body)); err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("%.80s: %+v, %+v, want %q", body, r, err, want)
		}
	}
}
