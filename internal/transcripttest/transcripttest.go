// Package transcripttest plays transcripts of pure cores: files of prose, of lines that a core is told, and of what it says to them.
package transcripttest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew from what is said")

// Run plays testdata/*.txt, each as a test of its own: play returns a transcript's text with what is said now.
func Run(t *testing.T, play func(t *testing.T, file, text string) string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, file, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs from what is said now (go test -run Transcripts -rewrite writes it anew):\n%s", file, got)
			}
		})
	}
}
