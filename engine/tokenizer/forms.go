package tokenizer

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// FormsMemory is what all forms of a process may hold: those that texts are held to, and those that are kept for the next
// text of the same form.
const FormsMemory = 512 << 20

const (
	maxForms = 1024             // kept, those that could not be compiled among them
	maxLine  = 10 * time.Second // that a form waits for others to be compiled

	quickTime = 20 * time.Millisecond // what a form takes that is compiled at once, before those that take longer
	slowTime  = 5 * time.Second       // what a form may take
)

// compiledForms are those of all tokenizers of the process, as the library's memory is one.
var compiledForms = newForms(FormsMemory)

// forms keeps what was compiled: each form once, however many texts are held to it. A form that takes no longer than
// quickTime never waits for those that do.
type forms struct {
	limit int

	mu     sync.Mutex
	byKey  map[formKey]*form // guarded by mu
	recent *list.List        // of *form, the last used first; guarded by mu
}

type formKey struct {
	of   *native.Grammars
	kind grammar.Kind
	text [sha256.Size]byte
}

// form is one that is compiled, or on its way.
type form struct {
	key       formKey
	place     *list.Element // nil when it is forgotten; guarded by forms.mu
	users     int           // texts, and those who wait for it; guarded by forms.mu
	cancelled atomic.Int32  // other than 0 when nobody waits for it any more
	ready     chan struct{}

	made *native.Form // set before ready is closed; nil if there is err
	err  error        // the same

	stepping sync.Mutex    // texts of one form share one lexer, and so take turns
	last     time.Duration // of their last step; guarded by stepping
}

func newForms(limit int) *forms {
	native.LimitForms(limit)
	return &forms{limit: limit, byKey: map[formKey]*form{}, recent: list.New()}
}

// open makes a Constraint of a form.
func (all *forms) open(ctx context.Context, of *native.Grammars, kind grammar.Kind, text string) (grammar.Constraint, error) {
	f := all.acquireForm(formKey{of, kind, sha256.Sum256([]byte(text))}, text)
	select {
	case <-f.ready:
	case <-ctx.Done():
		all.releaseForm(f)
		return nil, context.Cause(ctx)
	}
	if f.err != nil {
		all.releaseForm(f)
		return nil, f.err
	}
	c, err := all.newConstraint(f, f.made)
	if err != nil {
		all.releaseForm(f)
	}
	return c, err
}

// acquireForm is the form of a key, for one more user.
func (all *forms) acquireForm(key formKey, text string) *form {
	all.mu.Lock()
	defer all.mu.Unlock()
	f := all.byKey[key]
	if f == nil {
		f = &form{key: key, ready: make(chan struct{})}
		f.place = all.recent.PushFront(f)
		all.byKey[key] = f
		go all.compileForm(f, text) // ends with what it compiles, or when nobody waits for that
	}
	f.users++
	all.recent.MoveToFront(f.place)
	return f
}

// retainForm takes a form in use for one more user.
func (all *forms) retainForm(f *form) {
	all.mu.Lock()
	f.users++
	all.mu.Unlock()
}

// releaseForm ends a use of f.
func (all *forms) releaseForm(f *form) {
	all.mu.Lock()
	defer all.mu.Unlock()
	f.users--
	if f.users > 0 {
		return
	}
	select {
	case <-f.ready:
		if f.place == nil {
			f.freeCompiled()
		}
	default:
		f.cancelled.Store(1)
		all.dropForm(f)
	}
	all.trimUnused(all.limit / 2)
}

// forget drops the forms of a tokenizer, which nobody uses.
func (all *forms) forget(of *native.Grammars) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for key, f := range all.byKey {
		if key.of == of {
			all.dropForm(f)
		}
	}
}

// dropForm takes f out of the forms that are kept, and frees it if nobody uses it. The caller holds mu.
func (all *forms) dropForm(f *form) {
	if f.place != nil {
		all.recent.Remove(f.place)
		delete(all.byKey, f.key)
		f.place = nil
	}
	if f.users == 0 {
		f.freeCompiled()
	}
}

// freeCompiled frees what was compiled.
func (f *form) freeCompiled() {
	if f.made != nil {
		f.made.Close()
		f.made = nil
	}
}

// trimUnused drops forms that nobody uses, the least recently used first, until all hold no more than most. The caller holds mu.
func (all *forms) trimUnused(most int) {
	for e := all.recent.Back(); e != nil && (native.FormsHeld() > most || all.recent.Len() > maxForms); {
		f, before := e.Value.(*form), e.Prev()
		if f.users == 0 {
			all.dropForm(f)
		}
		e = before
	}
}

// compileForm makes f, within quickTime or in the line of those that take longer.
func (all *forms) compileForm(f *form, text string) {
	made, err := all.buildForm(f, text)
	all.mu.Lock()
	defer all.mu.Unlock()
	f.made, f.err = made, err
	close(f.ready)
	var busy *engine.Error
	if f.users == 0 || errors.As(err, &busy) { // the next one tries again
		all.dropForm(f)
	}
	all.trimUnused(all.limit / 2)
}

func (all *forms) buildForm(f *form, text string) (*native.Form, error) {
	ctx, stop := context.WithTimeoutCause(context.Background(), maxLine, engine.Errorf(engine.CodeOverloaded,
		"other forms of answers take long to compile, and this one has waited for %v: try again later", maxLine))
	defer stop()
	made, err := all.compileInTurn(ctx, quickStage(text), f, text, quickTime)
	if !native.IsLate(err, quickTime) {
		return made, err
	}
	return all.compileInTurn(ctx, processors.Stage{Kind: "slow form", Takes: slowTime / 2, Apart: true}, f, text, slowTime)
}

// quickStage is the compiling of a form that takes no longer than quickTime; small texts go first.
func quickStage(text string) processors.Stage {
	return processors.Stage{Kind: "form", Takes: quickTime/4 + min(quickTime/2, time.Duration(len(text))*10*time.Microsecond)}
}

// compileInTurn compiles on a processor; where the memory of all forms is used up, once more without those that nobody uses.
func (all *forms) compileInTurn(ctx context.Context, stage processors.Stage, f *form, text string, most time.Duration) (made *native.Form, err error) {
	compile := func() (err error) {
		made, err = f.key.of.Compile(f.key.kind, text, most, &f.cancelled)
		return err
	}
	_, err = processors.Shared().Do(ctx, stage, func() error {
		err := compile()
		if !native.IsFull(err) {
			return err
		}
		all.mu.Lock()
		all.trimUnused(0)
		all.mu.Unlock()
		return all.explainError(compile())
	})
	return made, err
}

// runStep runs one step of a text of f.
func (all *forms) runStep(f *form, run func() error) error {
	f.stepping.Lock()
	defer f.stepping.Unlock()
	_, err := processors.Shared().Do(context.Background(), processors.Stage{Kind: "form step", Takes: f.last}, func() error { // which ends by itself
		began := time.Now()
		err := run()
		f.last = time.Since(began)
		return err
	})
	if err == nil {
		return nil
	}
	all.mu.Lock()
	all.dropForm(f) // the next one compiles it anew
	all.mu.Unlock()
	return all.explainError(err)
}

// explainError makes an Error of what is no fault of a form.
func (all *forms) explainError(err error) error {
	switch {
	case native.IsFull(err):
		return engine.Errorf(engine.CodeOverloaded, "the forms of open requests hold %d MiB of %d MiB: try again later, or ask for a simpler form",
			native.FormsHeld()>>20, all.limit>>20)
	case native.IsBroken(err):
		return engine.Errorf(engine.CodeOverloaded, "another answer of the same form took too much memory: try again")
	}
	return err
}
