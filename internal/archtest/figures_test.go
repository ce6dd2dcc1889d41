package archtest

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// figures are what documents say of limits that are constants of the code. The pattern has the figure as its group, in units.
var figures = []struct {
	document, pattern string
	constant          string // package directory and name
	unit              int64
}{
	{"README.md", `up to ([\d,]+) questions over one input`, "engine/api/decisions.MaxQuestions", 1},
	{"docs/http.md", `of up to ([\d,]+) questions about one input`, "engine/api/decisions.MaxQuestions", 1},
	{"docs/http.md", `A request has at most ([\d,]+) inputs`, "engine/api/pooling.MaxInputs", 1},
	{"docs/http.md", `inputs and its answer ([\d,]+) numbers`, "engine/scoring.maxNumbers", 1},
	{"docs/http.md", `A form has at most ([\d,]+) KiB`, "engine/tokenizer.MaxGrammar", 1 << 10},
	{"docs/http.md", `A request has at most ([\d,]+) tools`, "engine/api/forms.maxTools", 1},
	{"docs/http.md", `As JSON at most ([\d,]+) MiB of tensors`, "engine/oip.maxJSON", 1 << 20},
	{"docs/http.md", `picture has at most ([\d,]+) pixels`, "engine/images.MaxPixels", 1},
	{"docs/http.md", `scans pass over more than ([\d,]+) pixels`, "engine/images.maxScanned", 1},
	{"docs/http.md", `A batch has at most ([\d,]+) lines`, "cmd/prefillonly/roles.maxBatchLines", 1},
	{"docs/http.md", `bodies of ([\d,]+) KiB and more`, "engine/frontend/exchange.heldBody", 1 << 10},
	{"docs/http.md", `\| ([\d,]+) of the largest`, "engine/frontend/exchange.bodyBudget", 1},
	{"docs/http.md", `is there, ([\d,]+) KiB have to come`, "engine/frontend/exchange.bodyStep", 1 << 10},
	{"docs/http.md", `\| ([\d,]+) times the tensors`, "engine/inference.inputsBudget", 1},
	{"docs/http.md", `those of ([\d,]+) requests of .--max-logprobs`, "engine/completion.budgetRequests", 1},
	{"docs/http.md", `those of ([\d,]+) requests of 67`, "engine/scoring.budgetRequests", 1},
	{"docs/http.md", `requests of ([\d,]+), in each frontend`, "engine/scoring.maxNumbers", 1},
	{"docs/http.md", `forms of answers \| ([\d,]+) MiB`, "engine/tokenizer.FormsMemory", 1 << 20},
	{"docs/http.md", `([\d,]+) that are kept, of which one runs`, "engine/batch/service.mostBatches", 1},
	{"docs/http.md", `lines of batches under way \| ([\d,]+),`, "cmd/prefillonly/roles.linesUnderWay", 1},
	{"docs/http.md", `video streams, and the memory that they take \| ([\d,]+) `, "videoext/live.maxStreams", 1},
	{"docs/video.md", `at most ([\d,]+) pixels wide`, "videoext/live.maxShown", 1},
	{"docs/video.md", `the last ([\d,]+) results are kept`, "videoext/journal.Kept", 1},
	{"docs/video.md", `results are kept, of at most ([\d,]+) MiB`, "videoext/journal.KeptBytes", 1 << 20},
	{"docs/video.md", `there are ([\d,]+) streams at most`, "videoext/live.maxStreams", 1},
	{"docs/attacks.md", `frames of each \| ([\d,]+) frames, as many as have results`, "videoext/streams.maxGap", 1},
	{"docs/attacks.md", `not begun x what each takes \| ([\d,]+) of a stream`, "videoext/live.maxBeginning", 1},
	{"docs/attacks.md", `detections of each \| ([\d,]+) detections`, "videoext/session.maxBoxes", 1},
	{"docs/attacks.md", `the first message \| ([\d,]+) KiB`, "videoext/session.MaxHelloBytes", 1 << 10},
	{"docs/attacks.md", `encoded and decoded .* ([\d,]+) MiB of a segment's frames`, "videoext/live.maxDecoded", 1 << 20},
	{"docs/attacks.md", `x its scans \| ([\d,]+) pixels`, "engine/images.maxScanned", 1},
	{"docs/attacks.md", `that wait x bytes of each \| ([\d,]+) MiB`, "videoext/live.mostWaiting", 1 << 20},
	{"docs/attacks.md", `prompts x \x60n\x60 \| ([\d,]+) answers`, "engine/completion.maxJobs", 1},
	{"docs/attacks.md", `lists of tokens \| ([\d,]+) numbers`, "engine/completion.maxListed", 1},
	{"docs/attacks.md", `several tokens \| ([\d,]+) prompts`, "engine/decision.maxJobs", 1},
	{"docs/attacks.md", `tokens of the input \| ([\d,]+) tokens`, "engine/decision.maxTokens", 1},
	{"docs/attacks.md", `tokens of the query \| ([\d,]+) tokens`, "engine/scoring.maxTokens", 1},
	{"docs/attacks.md", `items x labels \| ([\d,]+) numbers`, "engine/scoring.maxNumbers", 1},
	{"docs/attacks.md", `dimensions of each \| ([\d,]+) nodes`, "engine/dnn/onnx.maxNodes", 1},
	{"docs/attacks.md", `nodes, and ([\d,]+) MiB of all`, "engine/dnn/onnx.maxDecoded", 1 << 20},
	{"docs/onnx.md", `at most ([\d,]+) nodes`, "engine/dnn/onnx.maxNodes", 1},
	{"docs/quickstart.md", `up to ([\d,]+) bytes; any text`, "engine/api/completions.MaxSaltBytes", 1},
}

// TestFiguresOfDocuments: a limit that a document states is the code's.
func TestFiguresOfDocuments(t *testing.T) {
	constants := integerConstants(t)
	for _, f := range figures {
		m := regexp.MustCompile(strings.ReplaceAll(f.pattern, " ", `\s+`)).FindStringSubmatch(read(t, root+"/"+f.document))
		if m == nil {
			t.Errorf("%s does not say %q", f.document, f.pattern)
			continue
		}
		said, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
		if err != nil {
			t.Errorf("%s: %v", f.document, err)
		}
		if is, there := constants[f.constant]; !there || said*f.unit != is {
			t.Errorf("%s says %q; %s is %d (there: %v)", f.document, m[0], f.constant, is, there)
		}
	}
}

// budgets are the rows of the table of who may take how much that are counted by key, by the package that counts them.
var budgets = map[string]string{
	"engine/frontend/exchange": "bodies of 64 KiB and more", "engine/inference": "inputs that are made of pictures", "engine/speech": "sound at the networks' rates", "engine/blob": "tensors of open requests",
	"engine/completion": "log-probabilities of open requests", "engine/scoring": "numbers of vectors of open requests", "engine/client": "open jobs",
	"videoext/live": "video streams", "engine/frontend": "slots of processors that other programs ask for",
	"engine/ocr": "pictures whose text is read",
}

// TestTableOfShares: every budget that is shared out has its row in the table of docs/http.md, and no other has one; the share is the code's.
func TestTableOfShares(t *testing.T) {
	document := read(t, root+"/docs/http.md")
	for pkg, row := range budgets {
		if !regexp.MustCompile(`\| ` + row + `[^|]*\|[^|]*\| its share \|`).MatchString(document) {
			t.Errorf("docs/http.md has no row %q, of %s", row, pkg)
		}
	}
	if n := strings.Count(document, "| its share |"); n != len(budgets) {
		t.Errorf("docs/http.md has %d rows of shares, want %d", n, len(budgets))
	}
	if !strings.Contains(document, "three quarters of what the others leave") || integerConstants(t)["internal/budget.spare"] != 4 {
		t.Error("docs/http.md does not say the share that internal/budget gives")
	}
	counted := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && types.ExprString(call.Fun) == "budget.New" {
				counted[s.pkg] = true
			}
			return true
		})
	}
	for pkg := range counted {
		if budgets[pkg] == "" {
			t.Errorf("%s has a budget that the table does not tell", pkg)
		}
	}
	if len(counted) != len(budgets) {
		t.Errorf("budgets of %v, want %d", counted, len(budgets))
	}
}

// integerConstants are the values of the packages' constants that are written with numbers alone.
func integerConstants(t *testing.T) map[string]int64 {
	values := map[string]int64{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					addConstants(values, s.pkg, spec.(*ast.ValueSpec))
				}
			}
		}
	}
	return values
}

func addConstants(values map[string]int64, pkg string, spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(value))
		if err != nil || v.Value == nil {
			continue // it has a name or a call in it
		}
		if n, exact := constant.Int64Val(constant.ToInt(v.Value)); exact {
			values[pkg+"."+spec.Names[i].Name] = n
		}
	}
}

// TestTestsOfDocuments: a test that a document names is there.
func TestTestsOfDocuments(t *testing.T) {
	tests := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() {
				tests[f.Name.Name] = true
			}
		}
	}
	for path, text := range documents(t) {
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which is no test", path, m[1])
			}
		}
	}
}

// TestMinutesOfAttacks: the three places that say how long make attack takes agree.
func TestMinutesOfAttacks(t *testing.T) {
	said := map[string][]string{}
	for _, file := range []string{"Makefile", "docs/attacks.md", "tools/attack/__main__.py"} {
		m := regexp.MustCompile(`(?i)attack(?s:.{1,300}?)\b(\d+)\s+minutes`).FindStringSubmatch(read(t, root+"/"+file))
		if m == nil {
			t.Errorf("%s does not say how many minutes the attacks take", file)
			continue
		}
		said[m[1]] = append(said[m[1]], file)
	}
	if len(said) != 1 {
		t.Errorf("minutes of all attacks: %v, want one figure", said)
	}
}
