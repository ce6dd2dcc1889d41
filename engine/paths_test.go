package engine

import "testing"

// TestHidePaths: of the server's paths their last part is told, and all else stays.
func TestHidePaths(t *testing.T) {
	for text, want := range map[string]string{
		"open /srv/models/x/config.json: no such file":                 "open config.json: no such file",
		"dial unix /run/p/blob-0a: connect: refused":                   "dial unix blob-0a: connect: refused",
		`file "/a/b/c d.onnx"`:                                         `file "c d.onnx"`,
		"/etc/prefillonly/keys, line 3":                                "keys, line 3",
		"model `/srv/m/judge` (/home/u/w): path=/a/b":                  "model `judge` (w): path=b",
		"the model org/judge at https://hub.example/org/judge has 3/4": "the model org/judge at https://hub.example/org/judge has 3/4",
		"ask /health again":                                            "ask /health again",
	} {
		if got := HidePaths(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
