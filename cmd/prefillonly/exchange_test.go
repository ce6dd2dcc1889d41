package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// placedEye is a file of the network of pictures that finds its thing elsewhere.
func placedEye(t *testing.T, place float64) string {
	t.Helper()
	g := onnxtest.Eye(1)
	for i := range g.Constants {
		if g.Constants[i].Name == "place" {
			g.Constants[i] = onnxtest.Floats("place", []int{1, 4}, place, place, place+0.125, place+0.125)
		}
	}
	file := filepath.Join(t.TempDir(), "eye.onnx")
	if err := os.WriteFile(file, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNetworksAreExchangedWithoutAGap: beside 20 exchanges of a network, there and back, every request is answered, by the one or
// the other, and of a stream no frame is lost; a file that is no network leaves the one that serves, and says so.
func TestNetworksAreExchangedWithoutAGap(t *testing.T) {
	files := []string{placedEye(t, 0.25), placedEye(t, 0.5)}
	p := serveEyes(t, eyeEntry("eye", files[0]))
	if status, text := p.declare(`{"name":"door","source":"drawn.mp4","loop":true,"rate":10}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	p.untilStream("door", "is seen", func(s streamStatus) bool { return s.Number > 3 })
	ask := []byte(`{"inputs":[{"name":"x","shape":[1,3,16,24],"datatype":"FP32","data":[` + strings.TrimSuffix(strings.Repeat("0.5,", 3*16*24), ",") + `]}]}`)
	var group sync.WaitGroup
	var over atomic.Bool
	var places sync.Map // of what was found
	var answers atomic.Int64
	for range 2 {
		group.Go(func() {
			for !over.Load() {
				status, head, _ := postTensors(t, p.program, "eye", ask, -1)
				if status != http.StatusOK {
					t.Errorf("%d %s", status, head)
					return
				}
				places.Store(string(head[strings.Index(string(head), `"boxes"`):]), true)
				answers.Add(1)
			}
		})
	}
	for i := range 20 {
		p.reread("models:\n"+eyeEntry("eye", files[(i+1)%2]), "model exchanged")
		now := p.untilStream("door", "goes on", func(s streamStatus) bool { return s.State == "running" }).Number
		p.untilStream("door", "is seen", func(s streamStatus) bool { return s.Number > now })
	}
	broken := filepath.Join(t.TempDir(), "broken.onnx")
	if err := os.WriteFile(broken, []byte("no network"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.reread("models:\n"+eyeEntry("eye", broken), "the configuration is left as it is")
	before := answers.Load()
	p.until("answered by the one that is left", func() bool { return answers.Load() > before+5 || t.Failed() })
	over.Store(true)
	group.Wait()
	found := 0
	places.Range(func(any, any) bool { found++; return true })
	if found != 2 {
		t.Errorf("%d different answers, want those of two networks", found)
	}
	s := p.untilStream("door", "goes on", func(s streamStatus) bool { return s.State == "running" })
	seen := map[string]bool{}
	for i, r := range p.watch("door", int(s.Number)) {
		if r.Dropped != "" || r.Segment != i {
			t.Errorf("result %d is %+v", i, r)
		}
		for _, b := range r.Boxes {
			seen[fmt.Sprint(b.Box)] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("the stream was seen by %d networks, want 2: %v", len(seen), seen)
	}
	if n := strings.Count(p.logged(), "started again"); n != 0 {
		t.Errorf("%d processes were started again", n)
	}
}
