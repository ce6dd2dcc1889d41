package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	unspeakable = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// documents are the texts of the Markdown files, by path.
func documents(t *testing.T) map[string]string {
	texts := map[string]string{}
	tree(t, func(p string) {
		if filepath.Ext(p) == ".md" && !strings.Contains(p, "testdata") {
			texts[p] = read(t, p)
		}
	})
	return texts
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors are what a link can name after # in a document, as GitHub makes them of headings.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(unspeakable.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// deadLinks are the links of a document that lead to no file, or to no heading of one.
func deadLinks(t *testing.T, path, text string) (dead []string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, hasAnchor := strings.Cut(m[1], "#")
		target := path
		if file != "" {
			target = filepath.Join(filepath.Dir(path), file)
		}
		if _, err := os.Stat(target); err != nil || hasAnchor && !slices.Contains(anchors(read(t, target)), anchor) {
			dead = append(dead, m[1])
		}
	}
	return dead
}

// TestLinks: what the documents point to exists, headings included.
func TestLinks(t *testing.T) {
	texts := documents(t)
	for path, text := range texts {
		for _, dead := range deadLinks(t, path, text) {
			t.Errorf("%s links to %s, which does not exist", path, dead)
		}
	}
	const page = root + "/docs/status.md"
	if texts[page] == "" {
		t.Errorf("%s is not among the documents", page)
	}
	bad := "[a](status.md#gpu) [b](status.md#nothing) [c](nothing.md) [d](#no) [e](https://example.org/x)\n# GPU\n"
	if got, want := deadLinks(t, page, bad), []string{"status.md#nothing", "nothing.md", "#no"}; !slices.Equal(got, want) {
		t.Errorf("dead links %q are seen, want %q", got, want)
	}
}

// TestDocsAreReached: the README leads to every page of docs.
func TestDocsAreReached(t *testing.T) {
	readme := read(t, root+"/README.md")
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		if !strings.Contains(readme, "(docs/"+filepath.Base(page)+")") {
			t.Errorf("the README does not link to docs/%s", filepath.Base(page))
		}
	}
}

var fileName = regexp.MustCompile(`(^|[\s(])([A-Za-z0-9_][A-Za-z0-9_./-]*\.(?:py|sh|md|rs|cu|c|h|go))\b`)

// foreignFiles are files of other projects that comments name.
var foreignFiles = []string{"vllm/distributed/kv_events.py", "sysexits.h", "cuda.h"}

// TestCommentsNameFilesThatExist: beside the file that names them, or from the root on.
func TestCommentsNameFilesThatExist(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, m := range fileName.FindAllStringSubmatch(group.Text(), -1) {
				seen++
				if !slices.Contains(foreignFiles, m[2]) && !isFile(filepath.Dir(s.path), m[2]) && !isFile(root, m[2]) {
					t.Errorf("%s: a comment names %s, which does not exist", fset.Position(group.Pos()), m[2])
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d names of files were found in comments", seen)
	}
}

func isFile(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

var (
	pathRow = regexp.MustCompile(`(?m)^\| \d+[a-z]? \|([^|]*)\|([^|]*)\|`)
	quoted  = regexp.MustCompile("`([^`]+)`")
)

// TestDataPaths: each function that a row of docs/data-paths.md names is declared in a file of that row, where a file without a
// directory is in that of the one before it.
func TestDataPaths(t *testing.T) {
	rows := pathRow.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "data-paths.md")), -1)
	if len(rows) < 50 {
		t.Fatalf("got %d rows, want those of six paths", len(rows))
	}
	for _, row := range rows {
		var code strings.Builder
		dir := ""
		for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
			path := m[1]
			if !strings.Contains(path, "/") && dir != "" {
				path = filepath.Join(dir, path)
			}
			files := []string{filepath.Join(root, path)}
			if dir = filepath.Dir(path); filepath.Ext(path) != ".go" {
				dir = path
				files, _ = filepath.Glob(filepath.Join(root, path, "*.go"))
			}
			for _, f := range files {
				code.WriteString(read(t, f))
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(row[2], -1) {
			name := m[1][strings.LastIndex(m[1], ".")+1:]
			declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|\t)` + regexp.QuoteMeta(name) + `[\[(]`)
			if !declared.MatchString(code.String()) {
				t.Errorf("a row names %s, which none of %sdeclares", m[1], row[1])
			}
		}
	}
}
