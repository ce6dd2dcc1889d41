package executor_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// saver is a stepped with host memory; it notes what it saves.
type saver struct {
	*stepped
	saved chan []wire.Copy
	err   error
}

func (s *saver) Save(model string, copies []wire.Copy) error {
	if model != "m" {
		return fmt.Errorf("pages of model %q", model)
	}
	s.saved <- copies
	return s.err
}

// serveSaver runs an executor over a saver and returns its messages and its end.
func serveSaver(t *testing.T, s *saver) (wires, chan error) {
	s.stepped = &stepped{Null: executor.NewNull(info), entered: make(chan engine.JobID, 1000), gate: make(chan struct{})}
	s.saved = make(chan []wire.Copy, 10)
	w := wires{make(chan wire.Message), make(chan wire.Message, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Hour, Log: zap.NewNop()}
		result <- executor.Run(ctx, cfg, w, func() (executor.Runner, error) { return s, nil })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w, result
}

// TestSavesAreMadeEvenIfThePassIsNot: the scheduler counts on them from the moment that it sends them.
func TestSavesAreMadeEvenIfThePassIsNot(t *testing.T) {
	s := &saver{}
	w, _ := serveSaver(t, s)
	want := []wire.Copy{{Device: 9, Host: 3}}
	w.to <- &wire.Run{Pass: 1, Model: "m", Saves: want, Items: pass(1, 11).Items} // not welcomed yet: it does not begin
	w.to <- &wire.Abort{Pass: 1}
	if got := <-s.saved; !reflect.DeepEqual(got, want) {
		t.Errorf("saved %v, want %v", got, want)
	}
}

func TestFailedSavesEndTheExecutor(t *testing.T) {
	for _, c := range []struct {
		err   error
		model string
		want  string
	}{
		{errors.New("no memory"), "m", "no memory"},
		{nil, "other", `pages of model "other"`},
	} {
		w, result := serveSaver(t, &saver{err: c.err})
		w.to <- &wire.Run{Pass: 1, Model: c.model, Saves: make([]wire.Copy, 1), Items: pass(1, 11).Items}
		if err := <-result; err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Run = %v, want an error with %q", err, c.want)
		}
	}
}
