package api

import (
	"strings"
	"testing"
)

// TestBodiesThatAreNotUTF8: a body with a byte that is no UTF-8 is refused at its place, as another prompt would be scored in silence.
func TestBodiesThatAreNotUTF8(t *testing.T) {
	for body, place := range map[string]string{
		"{\"prompt\":\"a\xffb\"}":       "at byte 13 of 16",
		"{\"prompt\":\"é\xe9\"}":        "at byte 14 of 16",
		"\xff\xfe{\x00}\x00":            "at byte 1 of 6",
		"{\"a\":\"\xed\xa0\x80\"}":      "at byte 7 of 11",
		"{\"prompt\":\"\xef\xbf\xbd\"}": "", // U+FFFD itself
	} {
		var in struct{ Prompt string }
		switch err := Decode([]byte(body), &in); {
		case place == "" && err != nil:
			t.Errorf("%q: %v", body, err)
		case place != "" && (err == nil || err.Code != "invalid_json" || !strings.Contains(err.Message, "not UTF-8 "+place)):
			t.Errorf("%q: %v, want %s", body, err, place)
		}
	}
}

// TestNumbersThatAreTooLarge: a number that its field cannot hold is not told to be no number.
func TestNumbersThatAreTooLarge(t *testing.T) {
	for body, want := range map[string]string{
		`{"seed":18446744073709551615}`: "seed must be an integer that int64 holds, not number 18446744073709551615",
		`{"seed":-9223372036854775809}`: "seed must be an integer that int64 holds, not number -9223372036854775809",
		`{"seed":1.5}`:                  "seed must be an integer, not number 1.5",
		`{"seed":"1"}`:                  "seed must be an integer, not string",
		`{"temperature":1e400}`:         "temperature must be a number that float64 holds, not number 1e400",
		`{"temperature":true}`:          "temperature must be a number, not bool",
	} {
		var in struct {
			Seed        int64   `json:"seed"`
			Temperature float64 `json:"temperature"`
		}
		if err := Decode([]byte(body), &in); err == nil || err.Message != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
