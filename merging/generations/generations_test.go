package generations

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/mergingtest"
	"github.com/prefillonly/prefillonly/merging/search"
)

// merge is a pair of networks, of which b adopts a's layers but for the third.
type merge struct {
	dir    string
	inputs Inputs
	run    Run
	by     mergingtest.Trainer
}

func newMerge(t testing.TB, files string) *merge {
	t.Helper()
	m := &merge{inputs: Inputs{Policy: string(search.Adopt), Target: .95, Seed: 7}}
	var models []merging.Model
	var opened []merging.TrainedModel
	for i, name := range []string{"a", "b"} {
		path, content := filepath.Join(files, name+".onnx"), mergingtest.Network(uint64(i), 4, 3-i)
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, content) {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		layers, err := inspect.OpenLayers(path)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, layers)
		opened = append(opened, merging.TrainedModel{Name: name, File: path})
		m.inputs.Models = append(m.inputs.Models, Input{Name: name, File: path, SHA256: Sum(content), Decoder: "ssd", Clip: name + ".mp4", ClipSHA256: "0"})
	}
	m.by = mergingtest.Trainer{Refuses: func(t merging.Tie, _ int) bool { return t.Members[0].Layer == "layer2" }}
	m.run = Run{
		Plan: merging.NewPlan(models), Tell: func(Event) {}, Clock: func() time.Duration { return 0 },
		Options: search.Options{Policy: search.Adopt, Target: .95, Budget: time.Hour, Rate: 1, Cost: []float64{2, 1}},
		Open:    func(ctx context.Context) (merging.Session, error) { return m.by.Open(ctx, opened, 7) },
	}
	m.dir = filepath.Join(files, "merged")
	return m
}

// carry carries the merge on, or says what stopped it.
func (m *merge) carry() (done *search.Done, err error) {
	defer func() {
		if killed := recover(); killed != nil {
			done, err = nil, killed.(error)
		}
	}()
	d, err := Open(m.dir, m.inputs)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Carry(context.Background(), &m.run)
}

// tick makes each look at the clock take a second.
func (m *merge) tick() {
	ticks := time.Duration(0)
	m.run.Clock = func() time.Duration { ticks += time.Second; return ticks }
}

// content is all that a merge's directory has but for its lock, its log without times, by path.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "merge.lock" || e.Name() == stateName {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if e.Type() == os.ModeSymlink {
			all[name], err = os.Readlink(path)
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if at := strings.Index(line, `,"event"`); at > 0 {
				line = line[at:]
			}
			all[name] += line
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkCurrent holds the current generation to what its description says.
func checkCurrent(t *testing.T, where, dir string) *Merge {
	t.Helper()
	m, err := readMerge(dir, currentName)
	if err != nil {
		if _, gone := os.Lstat(filepath.Join(dir, currentName)); errors.Is(gone, os.ErrNotExist) {
			return nil
		}
		t.Fatalf("%s: %v", where, err)
	}
	for _, of := range m.Models {
		text, err := os.ReadFile(filepath.Join(dir, currentName, of.File))
		if err != nil || Sum(text) != of.SHA256 {
			t.Fatalf("%s: %s: %v, or it is not the file that %s tells of", where, of.File, err, mergeName)
		}
	}
	return m
}

var errKilled = errors.New("killed")

// TestKilledAtAnyWrite: whatever a process was writing when it was killed, or could not write, what is current is whole, and the next process comes to the
// same end.
func TestKilledAtAnyWrite(t *testing.T) {
	defer func() { beforeWrite = func(string) error { return nil } }()
	files := t.TempDir()
	m := newMerge(t, files)
	m.by = mergingtest.Trainer{Learns: mergingtest.Exponential(2)}
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	want := content(t, m.dir)
	if len(want) != 8 { // two generations of three, the log and the link
		t.Fatalf("%d files", len(want))
	}
	for at := 1; ; at++ {
		m.dir = filepath.Join(files, fmt.Sprint("killed", at))
		writes := 0
		beforeWrite = func(string) error {
			if writes++; writes < at {
				return nil
			}
			if at%2 == 0 || at < 4 {
				return errKilled // the disk is full
			} // the first ones are Open's, whose lock only a process's end would give back
			panic(errKilled)
		}
		_, err := m.carry()
		beforeWrite = func(string) error { return nil }
		if err == nil {
			if at < 30 {
				t.Errorf("a merge is of %d writes", at)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		checkCurrent(t, fmt.Sprint("killed at write ", at), m.dir)
		if _, err := m.carry(); err != nil {
			t.Fatalf("killed at write %d: %v", at, err)
		}
		if differs := difference(content(t, m.dir), want); differs != "" {
			t.Fatalf("killed at write %d: %s differs", at, differs)
		}
	}
}

// difference names a file that two directories have differently, "" for none.
func difference(a, b map[string]string) string {
	for name := range b {
		if a[name] != b[name] {
			return name
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			return name
		}
	}
	return ""
}

// mergeEnv makes this program carry a merge on among the files of a directory, saying a line for each event, until it is killed.
const mergeEnv = "GENERATIONS_TEST_MERGE"

func TestMain(m *testing.M) {
	toDisk = func(*os.File) error { return nil } // no test takes the power away
	if files := os.Getenv(mergeEnv); files != "" {
		of := newMerge(&testing.B{}, files)
		of.run.Tell = func(e Event) { fmt.Println(e.Event) }
		if _, err := of.carry(); err != nil {
			panic(err)
		}
		fmt.Println("end")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestProcessIsKilled, several times on the way, and the end is that of one which was not.
func TestProcessIsKilled(t *testing.T) {
	whole := newMerge(t, t.TempDir())
	if _, err := whole.carry(); err != nil {
		t.Fatal(err)
	}
	m := newMerge(t, t.TempDir())
	for tries, ended := 0, false; !ended; tries++ {
		if tries > 40 {
			t.Fatal("no end")
		}
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), mergeEnv+"="+filepath.Dir(m.dir))
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 5+tries && lines.Scan(); n++ {
			ended = lines.Text() == "end"
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		checkCurrent(t, fmt.Sprint("try ", tries), m.dir)
	}
	got, want := content(t, m.dir), content(t, whole.dir)
	for name := range want {
		if filepath.Base(name) != mergeName && name != eventsName && got[name] != want[name] { // those have the files' paths
			t.Errorf("%s differs from that of a merge that was not killed", name)
		}
	}
}

// TestGenerations: what a merge leaves.
func TestGenerations(t *testing.T) {
	m := newMerge(t, t.TempDir())
	if done, err := m.carry(); err != nil || done.Reason != search.NothingLeft {
		t.Fatal(done, err)
	}
	got := checkCurrent(t, "end", m.dir)
	if got.Generation != 2 || got.SharedBytes != 3*64 || len(got.Shared) != 3 || got.Models[1].Low < .95 || got.Models[1].Objects != 1000 {
		t.Errorf("got %+v", got)
	}
	a, b := got.Models[0], got.Models[1]
	if a.SHA256 != a.OriginalSHA256 || len(a.Changed) != 0 || a.ShipBytes != 0 {
		t.Errorf("the donor has changed: %+v", a)
	}
	if b.SHA256 == b.OriginalSHA256 || got.ShipBytes != b.ShipBytes || len(b.Changed) != 9 || len(a.Altered) != 0 || len(b.Altered) != 3 || b.Altered["dark"].Objects != 1000 {
		t.Errorf("the other one: %+v", b)
	}
	for _, s := range got.Shared {
		if s.Donor != "a" || s.Bytes != 64 || len(s.Members) != 2 || s.Members[0].Layer == "layer2" {
			t.Errorf("shared: %+v", s)
		}
	}
	if done, err := m.carry(); err != nil || done.Reason != search.NothingLeft {
		t.Error("carried on when it was at its end:", done, err)
	}
	status, err := Read(m.dir)
	if err != nil || status.Running != "" || status.Ended != search.NothingLeft || len(status.Generations) != 3 || status.Current.Generation != 2 {
		t.Errorf("%v, %+v", err, status)
	}
}

// TestMoreBudget: what ended for want of time goes on with more of it, and not with less.
func TestMoreBudget(t *testing.T) {
	m := newMerge(t, t.TempDir())
	m.tick()
	var resumed []float64
	m.run.Tell = func(e Event) {
		if e.Event == Resumed {
			resumed = append(resumed, e.Epochs)
		}
	}
	whole := m.run.Options.Budget
	for _, budget := range []time.Duration{10 * time.Second, 10 * time.Second, 5 * time.Second, 14 * time.Second} {
		m.run.Options.Budget = budget
		if done, err := m.carry(); err != nil || done.Reason != search.OutOfBudget {
			t.Fatal(budget, done, err)
		}
	}
	m.run.Options.Budget = whole
	if done, err := m.carry(); err != nil || done.Reason != search.NothingLeft {
		t.Fatal(done, err)
	}
	if got := checkCurrent(t, "end", m.dir); got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
	if len(resumed) != 2 || resumed[0] != 1 || math.Abs(resumed[1]-1-.46/.49) > 1e-9 {
		t.Errorf("goes on after %v epochs of its attempt", resumed)
	}
}

// TestOthersInputsAreRefused, with what differs, once there is something to lose.
func TestOthersInputsAreRefused(t *testing.T) {
	m := newMerge(t, t.TempDir())
	refused := func(want string, change func(*Inputs)) {
		t.Helper()
		in := m.inputs
		in.Models = slices.Clone(in.Models)
		change(&in)
		d, err := Open(m.dir, in)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if d, err := Open(m.dir, Inputs{}); err != nil {
		t.Fatal(err)
	} else if _, err := Open(m.dir, m.inputs); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("a second process: %v", err)
	} else {
		d.Close()
	}
	old := filepath.Join(m.dir, "0000") // its process was killed before it was current
	if err := errors.Join(os.Mkdir(old, 0o700), os.WriteFile(filepath.Join(old, mergeName), []byte(`{"attempt": 0}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.carry(); err != nil { // there was nothing to lose
		t.Fatal(err)
	}
	if got := checkCurrent(t, "others' inputs before", m.dir); got.Generation != 2 || len(got.Models) != 2 {
		t.Errorf("got %+v", got)
	}
	refused("target 0.95, want 0.9", func(in *Inputs) { in.Target = .9 })
	refused("seed 7, want 8", func(in *Inputs) { in.Seed = 8 })
	refused("policy adopt, want joint", func(in *Inputs) { in.Policy = "joint" })
	refused("2 models, want 1", func(in *Inputs) { in.Models = in.Models[:1] })
	refused("model a: clip's sha256 0, want 1", func(in *Inputs) { in.Models[0].ClipSHA256 = "1" })
	refused("model c: name a, want c", func(in *Inputs) { in.Models[0].Name = "c" })
	foreign := filepath.Join(t.TempDir(), "x")
	if err := errors.Join(os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "letter.txt"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	m.dir = foreign
	refused("holds letter.txt, which does not belong to a merge", func(*Inputs) {})
}

// TestRevert: originals and earlier generations come back, of one model or of all.
func TestRevert(t *testing.T) {
	m := newMerge(t, t.TempDir())
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	d, err := OpenExisting(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	of := func(got *Merge, err error) *Merge {
		t.Helper()
		if now := checkCurrent(t, "reverted", m.dir); err != nil || now.Generation != got.Generation {
			t.Fatal(err, now, got)
		}
		return got
	}
	if got := of(d.Revert([]string{"a"})); got.Generation != 2 {
		t.Errorf("the donor is as it was, and yet: %+v", got)
	}
	if got := of(d.Revert([]string{"b"})); got.Generation != 3 || got.SharedBytes != 0 || len(got.Shared) != 0 || got.Models[1].SHA256 != got.Models[1].OriginalSHA256 || got.Models[1].Value != 1 {
		t.Errorf("b: %+v", got)
	}
	if got := of(d.RevertTo(2)); got.SharedBytes != 3*64 {
		t.Errorf("to 2: %+v", got)
	}
	if got := of(d.Revert(nil)); got.Generation != 0 || got.SharedBytes != 0 {
		t.Errorf("all: %+v", got)
	}
	if _, err := d.Revert([]string{"c"}); err == nil || !strings.Contains(err.Error(), `no model "c": want one of [a b]`) {
		t.Error(err)
	}
	if _, err := d.RevertTo(9); err == nil || !strings.Contains(err.Error(), "no generation 9: there are [0 1 2 3]") {
		t.Error(err)
	}
}

// TestDescriptionsAreNotTrusted: what merge.json says decides of no file outside of its generation, and of none that is damaged.
func TestDescriptionsAreNotTrusted(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"current/merge.json", `"file": "b.onnx"`, `"file": "../../b.onnx"`, `invalid file "../../b.onnx" of model b: want b.onnx`},
		{"current/merge.json", `"name": "b"`, `"name": "../b"`, `invalid name of a model "../b"`},
		{"0000/merge.json", `"name": "b"`, `"name": "a"`, "two models are called a"},
		{"0000/merge.json", `"models": [`, `"models": [], "was": [`, "they are of two merges"},
		{"0000/b.onnx", "", "x", "0000/b.onnx is damaged: its sha256 is "},
		{"current/a.onnx", "", "x", "a.onnx is damaged: its sha256 is "},
	} {
		m := newMerge(t, t.TempDir())
		if _, err := m.carry(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(m.dir, c.file)
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), c.old) {
			t.Fatal(err, c.old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(content), c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenExisting(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Revert([]string{"b"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %s", c.file, got, err, c.want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedStateIsNamed(t *testing.T) {
	m := newMerge(t, t.TempDir())
	m.tick()
	m.run.Options.Budget = 10 * time.Second
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(m.dir, stateName)
	if err := os.WriteFile(state, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run.Options.Budget = time.Hour
	if _, err := m.carry(); err == nil || !strings.Contains(err.Error(), state+" is damaged") {
		t.Error(err)
	}
}
