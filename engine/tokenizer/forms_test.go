//go:build cgo

package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
)

// formsOf makes forms of limit bytes in the place of the process's, for one test.
func formsOf(t *testing.T, limit int) *forms {
	t.Helper()
	before := compiledForms
	compiledForms.mu.Lock()
	compiledForms.trimUnused(0)
	compiledForms.mu.Unlock()
	compiledForms = newForms(limit)
	t.Cleanup(func() {
		compiledForms = before
		native.LimitForms(before.limit)
	})
	return compiledForms
}

// hostileForm is the n-th of many forms that take much, each another.
func hostileForm(n int) (grammar.Kind, string) {
	switch n % 7 {
	case 0:
		return grammar.JSONSchema, strings.Repeat(`{"type":"array","items":`, 60+n%40) + fmt.Sprintf(`{"const":%d}`, n) + strings.Repeat("}", 60+n%40)
	case 1:
		var b strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&b, `"%d-%x",`, i*n, i*7919)
		}
		return grammar.JSONSchema, `{"enum":[` + b.String() + `"b"]}`
	case 2:
		return grammar.Regex, fmt.Sprintf(`(a|b)*a(a|b){%d}c`, 12+n%20)
	case 3:
		return grammar.Regex, fmt.Sprintf(`[a-z%d]{0,100000}x{%d}`, n%10, n)
	case 4:
		return grammar.JSONSchema, fmt.Sprintf(`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"p%d":{"$ref":"#/$defs/b"}}},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"string","maxLength":%d}]}}}`, n, 1000*n)
	case 5:
		return grammar.Regex, strings.Repeat(`.*x`, 20+n%100)
	}
	return grammar.Lark, fmt.Sprintf("start: (A | B)* \"%d\"\nA: /(a|b)*a(a|b){%d}/\nB: /.*b{%d}.*/\n", n, 8+n%8, 5+n%15)
}

// walkForm draws up to most tokens of a text of a form, and says how it ended.
func walkForm(c grammar.Constraint, seed uint64, most int) error {
	random := rand.New(rand.NewPCG(seed, 0))
	var next []engine.TokenID
	for range most {
		_, done, err := c.Advance(next...)
		if done || err != nil {
			return err
		}
		open, _, err := c.Allowed()
		if err != nil || open.Empty() {
			return err
		}
		next = []engine.TokenID{open.Nth(random.IntN(open.Len()))}
	}
	return nil
}

func residentBytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	var size, resident int
	if _, failed := fmt.Sscan(string(text), &size, &resident); err != nil || failed != nil {
		t.Skip("there is no /proc/self/statm")
	}
	return resident * os.Getpagesize()
}

// TestManyHostileForms holds hundreds of texts to hostile forms at a time, all different: together they keep no more than
// they may, what is refused says so, and all is given back.
func TestManyHostileForms(t *testing.T) {
	const limit, count = 24 << 20, 210
	tok := openShape(t, "llama3")
	if c, err := tok.Grammar(t.Context(), grammar.Regex, "a"); err == nil { // what the tokenizer shares
		c.Close()
	}
	all := formsOf(t, limit)
	held, before := native.FormsHeld(), residentBytes(t)
	if held > 1<<20 {
		t.Fatalf("%d bytes are held before", held)
	}
	texts := make([]grammar.Constraint, count) // all open at a time
	var wg sync.WaitGroup
	var served, full, refused, most, rss atomic.Int64
	var longest atomic.Int64
	began := time.Now()
	for n := range count {
		wg.Go(func() {
			kind, text := hostileForm(n)
			start := time.Now()
			c, err := tok.Grammar(t.Context(), kind, text)
			longest.Store(max(longest.Load(), int64(time.Since(start))))
			if err == nil {
				texts[n] = c
				err = walkForm(c, uint64(n), 12)
			}
			var busy *engine.Error
			switch {
			case err == nil:
				served.Add(1)
			case errors.As(err, &busy) && busy.Code == engine.CodeOverloaded:
				full.Add(1)
			default:
				refused.Add(1)
			}
			most.Store(max(most.Load(), int64(native.FormsHeld())))
			rss.Store(max(rss.Load(), int64(residentBytes(t)-before)))
		})
	}
	simple := time.Duration(0)
	for n := range 20 {
		start := time.Now()
		c, err := tok.Grammar(t.Context(), grammar.Regex, fmt.Sprintf("(yes|no) %d", n))
		var busy *engine.Error
		if err == nil {
			err = walkForm(c, 1, 5)
			c.Close()
		}
		if err != nil && !errors.As(err, &busy) {
			t.Errorf("a simple form beside them: %v", err)
		}
		simple = max(simple, time.Since(start))
	}
	wg.Wait()
	for _, c := range texts {
		if c != nil {
			c.Close()
		}
	}
	t.Logf("%v: %d held, %d refused for others, %d for themselves; at most %d MiB held, %d MiB more resident; the longest waited %v, a simple one took at most %v",
		time.Since(began), served.Load(), full.Load(), refused.Load(), most.Load()>>20, rss.Load()>>20, time.Duration(longest.Load()), simple)
	if most.Load() > limit {
		t.Errorf("%d bytes were held; the limit is %d", most.Load(), limit)
	}
	if rss.Load() > limit+64<<20 { // and the heap of the test, and the stacks of threads
		t.Errorf("%d MiB more are resident; all forms may hold %d", rss.Load()>>20, limit>>20)
	}
	if served.Load() == 0 || full.Load() == 0 {
		t.Error("all were served, or none")
	}
	all.mu.Lock()
	all.trimUnused(0)
	kept := all.recent.Len()
	all.mu.Unlock()
	if left := native.FormsHeld(); left > 64<<10 {
		t.Errorf("%d bytes are held by %d forms when all is over", left, kept)
	}
}

// TestFormsAreShared compiles a form once for many texts, which go on apart.
func TestFormsAreShared(t *testing.T) {
	tok := openShape(t, "llama3")
	all := formsOf(t, 64<<20)
	var wg sync.WaitGroup
	texts := make([]grammar.Constraint, 50)
	for i := range texts {
		wg.Go(func() {
			c, err := tok.Grammar(t.Context(), grammar.Regex, "[0-9]{5,9}")
			if err == nil {
				err = walkForm(c, uint64(i), 3)
			}
			if err != nil {
				t.Error(err)
			}
			texts[i] = c
		})
	}
	wg.Wait()
	if n := all.recent.Len(); n != 1 {
		t.Errorf("%d forms are kept of one", n)
	}
	for _, c := range texts {
		c.Close()
	}
	if n := all.recent.Len(); n != 1 {
		t.Errorf("%d forms are kept when nobody uses them", n)
	}
	tok.closeGrammars()
	tok.grammars.shared = nil
	if n := all.recent.Len(); n != 0 {
		t.Errorf("%d forms are kept without their tokenizer", n)
	}
}

// TestFormsGiveBack holds that what is counted comes back: text after text, in its end and in errors, and form after form.
func TestFormsGiveBack(t *testing.T) {
	tok := openShape(t, "llama3")
	all := formsOf(t, 64<<20)
	round := func() int {
		for i := range 200 {
			for _, text := range []string{"[0-9]{5,9}", "(ab", fmt.Sprintf("(yes|no){%d}", i)} {
				c, err := tok.Grammar(t.Context(), grammar.Regex, text)
				if err != nil {
					continue
				}
				_ = walkForm(c, uint64(i), 6)
				_, _, _ = c.Advance(1 << 30) // no token
				c.Close()
			}
		}
		all.mu.Lock()
		all.trimUnused(-1)
		all.mu.Unlock()
		return native.FormsHeld()
	}
	first := round()
	if again := round(); again > first+1024 {
		t.Errorf("%d bytes are held after 600 texts, %d after 1,200", first, again)
	}
}

// TestFullForms holds that a form which the others leave no room for is refused with the figures, and can be used later.
func TestFullForms(t *testing.T) {
	tok := openShape(t, "llama3")
	all := formsOf(t, 1<<20)
	_, big := hostileForm(1)
	_, err := tok.Grammar(t.Context(), grammar.JSONSchema, big)
	var busy *engine.Error
	if !errors.As(err, &busy) || busy.Code != engine.CodeOverloaded || !strings.Contains(busy.Message, "hold 0 MiB of 1 MiB") {
		t.Errorf("a form without room: %v", err)
	}
	native.LimitForms(64 << 20)
	c, err := tok.Grammar(t.Context(), grammar.JSONSchema, big)
	if err != nil {
		t.Fatalf("with room, later: %v", err)
	}
	c.Close()
	all.mu.Lock()
	all.trimUnused(0)
	all.mu.Unlock()
}

// TestLeftForms holds that a form is compiled no further when nobody waits for it, and is when one of two leaves.
func TestLeftForms(t *testing.T) {
	tok := openShape(t, "llama3")
	all := formsOf(t, 256<<20)
	text := "start: " + strings.Repeat(`"a" `, 60000)
	left := errors.New("the client left")
	ask := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			c, err := tok.Grammar(ctx, grammar.Lark, text)
			if err == nil {
				c.Close()
			}
			done <- err
		}()
		return done
	}
	underway := func() (f *form) {
		for f == nil {
			all.mu.Lock()
			if e := all.recent.Front(); e != nil {
				f = e.Value.(*form)
			}
			all.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		return f
	}
	ctx, leave := context.WithCancelCause(t.Context())
	first := ask(ctx)
	f := underway()
	leave(left)
	if err := <-first; !errors.Is(err, left) {
		t.Errorf("who leaves gets %v", err)
	}
	if <-f.ready; f.err == nil || f.err.Error() != "cancelled" {
		t.Errorf("a form that nobody waits for is compiled: %v", f.err)
	}

	ctx, leave = context.WithCancelCause(t.Context())
	first, second := ask(ctx), ask(t.Context())
	for f = underway(); ; time.Sleep(time.Millisecond) {
		all.mu.Lock()
		n := f.users
		all.mu.Unlock()
		if n == 2 {
			break
		}
	}
	leave(left)
	if err := <-first; !errors.Is(err, left) {
		t.Errorf("who leaves gets %v", err)
	}
	if err := <-second; err != nil && (err.Error() == "cancelled" || errors.Is(err, left)) {
		t.Errorf("who stays gets %v", err)
	}
}
