package tokenizer

import (
	"runtime"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
)

// constraint is a text that is held to a form.
type constraint struct {
	all   *forms
	of    *form
	state *native.Form // nil when it is closed
}

// newConstraint makes a text in the state from, of a form that its caller has taken for it.
func (all *forms) newConstraint(of *form, from *native.Form) (grammar.Constraint, error) {
	c := &constraint{all: all, of: of}
	err := all.runStep(of, func() (err error) {
		c.state, err = from.Clone()
		return err
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(c, (*constraint).Close) // of a request that ended in a defect of ours
	return c, nil
}

// Close implements grammar.Constraint.
func (c *constraint) Close() {
	if c.state == nil {
		return
	}
	c.of.stepping.Lock()
	c.state.Close()
	c.of.stepping.Unlock()
	c.state = nil
	runtime.SetFinalizer(c, nil)
	c.all.releaseForm(c.of)
}

// Advance implements grammar.Constraint.
func (c *constraint) Advance(ids ...engine.TokenID) (forced []engine.TokenID, done bool, err error) {
	err = c.all.runStep(c.of, func() (err error) {
		forced, done, err = c.state.Advance(ids)
		return err
	})
	return forced, done, err
}

// Allowed implements grammar.Constraint.
func (c *constraint) Allowed() (set engine.TokenSet, end bool, err error) {
	err = c.all.runStep(c.of, func() (err error) {
		set, end, err = c.state.Allowed()
		return err
	})
	return set, end, err
}

// Clone implements grammar.Constraint.
func (c *constraint) Clone() (grammar.Constraint, error) {
	c.all.retainForm(c.of)
	twin, err := c.all.newConstraint(c.of, c.state)
	if err != nil {
		c.all.releaseForm(c.of)
	}
	return twin, err
}
