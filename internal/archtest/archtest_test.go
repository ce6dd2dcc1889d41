package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/prefillonly/prefillonly/"
)

// source is a Go file of this module.
type source struct {
	pkg  string // directory below the root
	path string
	file *ast.File
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// imports lists the import paths, this module's own without its name.
func (s *source) imports() []string {
	var list []string
	for _, i := range s.file.Imports {
		list = append(list, strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module))
	}
	return list
}

var fset = token.NewFileSet()

// tree visits every file that belongs to this module: what git ignores or another module holds is
// left out.
func tree(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, foreign := os.Stat(filepath.Join(p, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") && p != root
			if hidden || p != root && foreign == nil || slices.Contains([]string{"bin", "build", "target", "node_modules"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		visit(p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parsed are the files that sources has read, for tests that come after; tests of this package do not run in parallel.
var parsed []*source

func sources(t *testing.T) []*source {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	var list []*source
	tree(t, func(p string) {
		if !strings.HasSuffix(p, ".go") {
			return
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		dir, err := filepath.Rel(root, filepath.Dir(p))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, &source{pkg: filepath.ToSlash(dir), path: p, file: f})
	})
	if len(list) < 50 {
		t.Fatalf("only %d Go files below %s", len(list), root)
	}
	parsed = list
	return list
}

func TestImportLaw(t *testing.T) {
	own := regexp.MustCompile(`^(bench|cmd|engine|internal|kernels|kvcache|merging|scheduler|test|videoext)(/|$)`)
	for _, s := range sources(t) {
		if s.isTest() || slices.Contains(roots, s.pkg) {
			continue
		}
		allowed, listed := arrows[s.pkg]
		if !listed {
			t.Errorf("package %s has no row in arrows: say what it may import", s.pkg)
		}
		for _, i := range s.imports() {
			if own.MatchString(i) && !slices.Contains(allowed, i) {
				t.Errorf("%s imports %s; arrows allow it %v", s.path, i, allowed)
			}
		}
	}
}

// TestServerIsFreeOfGPL: the server's program contains no package that links libx264, by whatever way.
func TestServerIsFreeOfGPL(t *testing.T) {
	for program, want := range map[string]bool{"cmd/prefillonly": false, "cmd/camera": true} {
		list, err := exec.Command("go", "list", "-deps", root+"/"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(strings.Fields(string(list)), module+"videoext/media/x264"); got != want {
			t.Errorf("%s has the GPL encoder among its packages: %v, want %v", program, got, want)
		}
	}
}

// TestResearchIsNotServed: by the arrows, what serves reaches no research, and all that the products have besides is research,
// or serves tests.
func TestResearchIsNotServed(t *testing.T) {
	served := map[string]bool{}
	var reach func(p string)
	reach = func(p string) {
		if !served[p] {
			served[p] = true
			for _, q := range arrows[p] {
				reach(q)
			}
		}
	}
	for _, p := range serving {
		reach(p)
	}
	product := regexp.MustCompile(`^(scheduler|videoext)(/|$)`)
	for p := range arrows {
		isResearch := slices.ContainsFunc(research, func(r string) bool { return p == r || strings.HasPrefix(p, r+"/") })
		switch {
		case isResearch && served[p]:
			t.Errorf("%s is research, and is served", p)
		case !isResearch && !served[p] && product.MatchString(p) && !strings.HasSuffix(p, "test"):
			t.Errorf("%s serves nothing: delete it, or list it as research", p)
		}
	}
}

// TestArrowsHaveNoCycle: following the arrows never leads back.
func TestArrowsHaveNoCycle(t *testing.T) {
	state := map[string]int{} // 1 on the way, 2 done
	var visit func(p string)
	visit = func(p string) {
		if state[p] == 1 {
			t.Errorf("a cycle through %s", p)
		}
		if state[p] != 0 {
			return
		}
		state[p] = 1
		for _, q := range arrows[p] {
			if _, ok := arrows[q]; !ok {
				t.Errorf("%s may import %s, which has no row", p, q)
			}
			visit(q)
		}
		state[p] = 2
	}
	for p := range arrows {
		visit(p)
	}
}

func TestExternals(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, i := range s.imports() {
			for _, rule := range externals {
				if (i == rule.path || strings.HasPrefix(i, rule.path+"/")) && !slices.Contains(rule.allowed, s.pkg) {
					t.Errorf("%s imports %s; only %v may, since %s", s.path, i, rule.allowed, rule.why)
				}
			}
		}
	}
}

// TestPurePackages: no goroutine, channel, clock, global random number, file or socket.
func TestPurePackages(t *testing.T) {
	for _, s := range sources(t) {
		shell, isPure := pure[s.pkg]
		if !isPure || s.isTest() || slices.Contains(shell, path.Base(s.path)) {
			continue
		}
		for _, i := range s.imports() {
			for _, bad := range impureImports {
				if i == bad || strings.HasPrefix(i, bad+"/") && bad != "math/rand" {
					t.Errorf("%s is pure and imports %s", s.path, i)
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if what := impure(n); what != "" {
				t.Errorf("%s is pure and uses %s", fset.Position(n.Pos()), what)
			}
			return true
		})
	}
}

// impure names what a node does that a pure file must not, or returns "".
func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
		return "a channel"
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(impureNames[pkg.Name], n.Sel.Name) {
			return pkg.Name + "." + n.Sel.Name
		}
	}
	return ""
}

// TestImpureIsSeen: the check above can fail.
func TestImpureIsSeen(t *testing.T) {
	const text = `package p
func f(c chan int) { go f(nil); c <- 1; select {}; time.Now(); rand.IntN(3); rand.New(nil); x.Now() }`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		if what := impure(n); what != "" {
			found = append(found, what)
		}
		return true
	})
	if want := []string{"a channel", "a goroutine", "a channel", "a channel", "time.Now", "rand.IntN"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// TestPackageComments: every package says in its first sentence what it is.
func TestPackageComments(t *testing.T) {
	comments := map[string]string{}
	names := map[string]string{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		names[s.pkg] = s.file.Name.Name
		if s.file.Doc != nil {
			if comments[s.pkg] != "" {
				t.Errorf("package %s has two package comments", s.pkg)
			}
			comments[s.pkg] = s.file.Doc.Text()
		}
	}
	for pkg, name := range names {
		begin := "Package " + name + " "
		if name == "main" {
			begin = "Command " + path.Base(pkg) + " "
		}
		if !strings.HasPrefix(comments[pkg], begin) || !strings.Contains(comments[pkg], ".") {
			t.Errorf("package %s: its comment begins %.60q, want a sentence that begins %q", pkg, comments[pkg], begin)
		}
	}
}

func TestFileSize(t *testing.T) {
	kinds := []string{".go", ".c", ".h", ".cu", ".cuh", ".cpp", ".rs", ".py", ".sh"}
	tree(t, func(p string) {
		if rel, err := filepath.Rel(root, p); err != nil || !slices.Contains(kinds, filepath.Ext(p)) || slices.Contains(generated, rel) {
			return
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by what its parts are for", p, n, maxLines)
		}
	})
}

// TestPackageSize: a package that is large, or small with one importer, says why in its comment.
func TestPackageSize(t *testing.T) {
	lines, comments, importers := map[string]int{}, map[string]string{}, map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		lines[s.pkg] += strings.Count(read(t, s.path), "\n")
		comments[s.pkg] += s.file.Doc.Text()
		for _, i := range s.imports() {
			if importers[i] == nil {
				importers[i] = map[string]bool{}
			}
			importers[i][s.pkg] = true
		}
	}
	for pkg, n := range lines {
		if want := owed(n, len(importers[pkg])); want != "" && !strings.HasSuffix(pkg, "test") && !strings.Contains("\n"+comments[pkg], "\n"+want) {
			t.Errorf("package %s has %d lines and %d importers: fold or divide it, or begin a line of its comment with %q", pkg, n, len(importers[pkg]), want)
		}
	}
}

// owed begins the sentence that a package of so many lines and importers has in its comment, "" for none.
func owed(lines, importers int) string {
	switch {
	case lines > largePackage:
		return "It is one package because "
	case lines < smallPackage && importers == 1:
		return "It is apart because "
	}
	return ""
}

func TestOwedSentences(t *testing.T) {
	for _, c := range []struct {
		lines, importers int
		want             string
	}{
		{smallPackage - 1, 1, "It is apart because "}, {smallPackage, 1, ""}, {smallPackage - 1, 2, ""}, {smallPackage - 1, 0, ""},
		{largePackage, 1, ""}, {largePackage + 1, 1, "It is one package because "}, {largePackage + 1, 9, "It is one package because "},
	} {
		if got := owed(c.lines, c.importers); got != c.want {
			t.Errorf("%d lines and %d importers owe %q, want %q", c.lines, c.importers, got, c.want)
		}
	}
}

// TestRulesNameWhatExists: packages and files that the rules name are there.
func TestRulesNameWhatExists(t *testing.T) {
	packages := map[string]bool{}
	for _, s := range sources(t) {
		packages[s.pkg] = true
	}
	known := func(rule string, names ...string) {
		for _, name := range names {
			if !packages[name] {
				t.Errorf("%s names the package %s, which does not exist", rule, name)
			}
		}
	}
	known("roots", roots...)
	for pkg, imports := range arrows {
		known("arrows", append(imports, pkg)...)
	}
	for _, rule := range externals {
		known("the rule of "+rule.path, rule.allowed...)
	}
	for pkg, shell := range pure {
		known("pure", pkg)
		for _, file := range shell {
			if !isFile(filepath.Join(root, pkg), file) || filepath.Ext(file) != ".go" {
				t.Errorf("pure names the file %s of %s, which does not exist", file, pkg)
			}
		}
	}
	for _, file := range generated { // the file itself may not be made yet
		if !isFile(root, filepath.Dir(file)) {
			t.Errorf("generated names %s, whose directory does not exist", file)
		}
	}
}
