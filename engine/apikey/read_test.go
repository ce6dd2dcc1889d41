package apikey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keyFile writes a file of keys.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFileSkipsComments: comments and blank lines are no keys, wherever they stand, and neither is the mark of admins.
func TestFileSkipsComments(t *testing.T) {
	file := keyFile(t, "\ufeff# keys of 2026\r\n\r\n  sk-1 # Alice's\n\t# sk-old\n#secret-old\n# sk-2 @admin\nsk-3 team @admin # Bob's\nsk-4#5 team\n")
	r, err := NewRing([]string{" # none", "sk-env #x"}, file, IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{
		"sk-1": true, "sk-3": true, "sk-4#5": true, "sk-env": true,
		"": false, "#": false, "#secret-old": false, "secret-old": false, "sk-old": false, "sk-2": false, "@admin": false, "team": false, "\ufeff#": false, "#x": false, "Alice's": false,
	} {
		if owner, ok := r.Find(token); ok != want || owner.Admin() != (token == "sk-3") {
			t.Errorf("%q is a key: %v, an admin's: %v", token, ok, owner.Admin())
		}
	}
	if sent, err := Sent(file, "other"); sent != "sk-1" || err != nil {
		t.Errorf("a client sends %q, %v", sent, err)
	}
	if sent, err := Sent("", "#a,sk-5 team,sk-6"); sent != "sk-5" || err != nil {
		t.Errorf("a client sends %q, %v", sent, err)
	}
}

// TestFileRefusals: what cannot be a key is refused with its line, and never shown; without any key a server would be open.
func TestFileRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "holds no key"},
		{"\n \n", "holds no key"},
		{"# sk-hidden\n", "holds no key"},
		{"sk-1\n@admin\n", "line 2 begins with a mark"},
		{"@hidden\n", "line 1 begins with a mark"},
		{"\nsk-hidden @hidden\n", "line 2 has an unknown mark"},
		{"a\nb\nhidden hidden hidden\n", "line 3 has 3 words"},
		{"hidd\u00e9n\n", "line 1 is not a valid key: byte 5"},
		{"hid\x00den\n", "line 1 is not a valid key: byte 4"},
		{"hidden a\n#\nhidden b\n", "line 3: the key is listed before"},
	} {
		file := keyFile(t, c.text)
		_, err := NewRing(nil, file, IsolateKeys)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(strings.ReplaceAll(err.Error(), file, ""), "hid") {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	for _, entries := range [][]string{{"#hidden"}, {""}, {" ", "# hidden"}} {
		if _, err := NewRing(entries, "", IsolateKeys); err == nil || !strings.Contains(err.Error(), "no key") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", entries, err)
		}
	}
	if r, err := NewRing(nil, "", IsolateKeys); err != nil || !r.Empty() {
		t.Errorf("without keys: %v", err)
	}
}
