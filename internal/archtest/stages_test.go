package archtest

import (
	"go/ast"
	"go/parser"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// turns are what runs a function when the turn of a stage has come, by name: the pool of internal/processors and what stands before it.
var turns = []string{"Do", "RunStage", "runStage", "runMeasured", "runInTurn", "Turn"}

// heavy are functions whose work is a stage, by package: it may be called in a turn alone, or by a function that is.
var heavy = map[string][]string{
	"engine/images":             {"Decode", "FromRGB"},
	"engine/oip":                {"Decode"},
	"engine/sounds":             {"NewResampler"},
	"engine/api/transcriptions": {"DecodeForm"},
	"videoext/media/ffmpeg":     {"Decode"},        // a segment; of clips Options.Stage
	"engine/api/recognition":    {"DecodePicture"}, // and other bodies of JSON: exchange.Prepare has decoders called in a turn
}

// turnless may call them outside of a turn, and why.
var turnless = map[string]string{
	"videoext/camera":       "a camera's machine is another one",
	"videoext/resolve":      "measures",
	"test/videosoak":        "tests",
	"cmd/prefillonly/video": "a command computes alone",
	"merging/local":         "a command trains alone",
}

// TestStagesRunInTurns: pictures, tensors, sounds and bodies are decoded where a processor's turn is waited for, so that all of it keeps to one order.
func TestStagesRunInTurns(t *testing.T) {
	packages := map[string][]*source{}
	for _, s := range sources(t) {
		if !s.isTest() && !slices.ContainsFunc(research, func(of string) bool { return s.pkg == of || strings.HasPrefix(s.pkg, of+"/") }) {
			packages[s.pkg] = append(packages[s.pkg], s)
		}
	}
	found := map[string]bool{}
	for pkg, files := range packages {
		calls := callsOf(files)
		for _, c := range calls {
			of := heavyCall(c)
			if of == "" {
				continue
			}
			found[of] = true
			if _, free := turnless[pkg]; !free && !c.inTurn && !calls.onlyInTurns(c.by, nil) {
				t.Errorf("%s: %s is called by %s outside of a turn: have internal/processors run it, as stages do", pkg, of, c.by)
			}
		}
	}
	for pkg, names := range heavy {
		for _, name := range names {
			if of := path.Base(pkg) + "." + name; !found[of] {
				t.Errorf("nothing calls %s: the list of stages is old", of)
			}
		}
	}
}

// TestWorkOutsideOfTurnsIsSeen: of what does the same work, in a turn, in a function that is called in turns alone, and beside them.
func TestWorkOutsideOfTurnsIsSeen(t *testing.T) {
	const text = `package p
import ("context"; "github.com/prefillonly/prefillonly/engine/images")
func inTurn(h host) { h.RunStage(context.Background(), func() error { images.Decode(nil); helper(); return nil }) }
func helper() { deeper() }
func deeper() { images.Decode(nil) }
func both(h host) { h.RunStage(context.Background(), func() error { shared(); return nil }); shared() }
func shared() { images.Decode(nil) }
func Exported() { images.Decode(nil) }`
	file, err := parser.ParseFile(fset, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := callsOf([]*source{{file: file}})
	var outside []string
	for _, c := range all {
		if heavyCall(c) != "" && !c.inTurn && !all.onlyInTurns(c.by, nil) {
			outside = append(outside, c.by)
		}
	}
	if want := []string{"shared", "Exported"}; !slices.Equal(outside, want) {
		t.Errorf("outside of turns are %q, want %q", outside, want)
	}
}

// stageless may open clips without a Stage for the decoding of their frames, and why.
var stageless = map[string]string{
	"videoext/live":         "looks at a file's header",
	"videoext/media/pipe":   "a camera's machine is another one",
	"cmd/camera":            "a camera's machine is another one",
	"cmd/prefillonly/video": "a command computes alone",
	"merging/local":         "a command trains alone",
}

// TestClipsAreDecodedInTurns: whoever opens a clip says in whose turns its frames are decoded, and those who need not are those who do not.
func TestClipsAreDecodedInTurns(t *testing.T) {
	staged, without := 0, map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(s.imports(), "videoext/media/ffmpeg") || strings.HasPrefix(s.pkg, "bench/") || strings.HasPrefix(s.pkg, "test/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			options, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if of, ok := options.Type.(*ast.SelectorExpr); !ok || of.Sel.Name != "Options" || types.ExprString(of.X) != "ffmpeg" {
				return true
			}
			hasStage := slices.ContainsFunc(options.Elts, func(e ast.Expr) bool {
				pair, ok := e.(*ast.KeyValueExpr)
				return ok && types.ExprString(pair.Key) == "Stage"
			})
			switch {
			case hasStage:
				staged++
			case stageless[s.pkg] != "":
				without[s.pkg] = true
			default:
				t.Errorf("%s opens a clip without a Stage: its frames would be decoded outside of turns", s.path)
			}
			return true
		})
	}
	for pkg := range stageless {
		if !without[pkg] {
			t.Errorf("%s opens no clip without a Stage: the list is old", pkg)
		}
	}
	if staged == 0 {
		t.Error("no clip is decoded in turns: the test looks in vain")
	}
}

// call is one of a function or a method.
type call struct {
	from   string // the package's path; empty: this one's, or a method
	name   string
	by     string // the function that it is in
	inTurn bool   // in a function literal that is handed to what runs turns
}

type calls []call

func heavyCall(c call) string {
	if slices.Contains(heavy[c.from], c.name) {
		return path.Base(c.from) + "." + c.name
	}
	return ""
}

// onlyInTurns says that a function is called, by its package, and only in turns, or by functions of which that is so.
func (all calls) onlyInTurns(name string, seen []string) bool {
	if slices.Contains(seen, name) {
		return true
	}
	called := false
	for _, c := range all {
		if c.name != name || c.from != "" || c.by == name {
			continue
		}
		called = true
		if !c.inTurn && !all.onlyInTurns(c.by, append(seen, name)) {
			return false
		}
	}
	return called
}

func callsOf(files []*source) (all calls) {
	for _, s := range files {
		imports := map[string]string{}
		for i, p := range s.imports() {
			name := path.Base(p)
			if n := s.file.Imports[i].Name; n != nil {
				name = n.Name
			}
			imports[name] = p
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				all = appendCalls(all, f.Body, f.Name.Name, imports, false)
			}
		}
	}
	return all
}

// appendCalls appends those of a node. What is handed to a turn without a literal around it is called there, too.
func appendCalls(all calls, in ast.Node, by string, imports map[string]string, inTurn bool) calls {
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			from, name := calleeOf(n.Fun, imports)
			all = append(all, call{from: from, name: name, by: by, inTurn: inTurn})
			turn := slices.Contains(turns, name) || name == "Prepare"
			all = appendCalls(all, n.Fun, by, imports, inTurn)
			for _, argument := range n.Args {
				all = appendCalls(all, argument, by, imports, inTurn || turn)
				if from, name := calleeOf(argument, imports); name != "" {
					all = append(all, call{from: from, name: name, by: by, inTurn: inTurn || turn})
				}
			}
			return false
		}
		return true
	})
	return all
}

// calleeOf is what an expression names, of another package or of this one.
func calleeOf(e ast.Expr, imports map[string]string) (from, name string) {
	switch e := e.(type) {
	case *ast.Ident:
		return "", e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && imports[x.Name] != "" {
			return imports[x.Name], e.Sel.Name
		}
		return "", e.Sel.Name
	case *ast.IndexExpr:
		return calleeOf(e.X, imports)
	}
	return "", ""
}
