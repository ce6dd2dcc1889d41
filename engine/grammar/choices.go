package grammar

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
)

// Choices is the Constraint of a text that must be one of some, each in one sequence of tokens.
type Choices struct {
	open [][]engine.TokenID // those that begin with what was taken, in their order
	at   int                // tokens taken
}

// NewChoices makes a Constraint of at least one text, each of at least one token.
func NewChoices(texts [][]engine.TokenID) *Choices {
	open := slices.Clone(texts)
	slices.SortFunc(open, slices.Compare)
	return &Choices{open: slices.CompactFunc(open, slices.Equal)}
}

// Advance implements Constraint.
func (c *Choices) Advance(ids ...engine.TokenID) (forced []engine.TokenID, done bool, err error) {
	for _, id := range ids {
		if err := c.takeToken(id); err != nil {
			return nil, false, err
		}
	}
	for {
		first, last := c.open[0], c.open[len(c.open)-1]
		if len(first) == c.at { // sorts before those that go on
			return forced, len(c.open) == 1, nil
		}
		if first[c.at] != last[c.at] {
			return forced, false, nil
		}
		forced = append(forced, first[c.at])
		c.at++
	}
}

// takeToken keeps those that go on with id.
func (c *Choices) takeToken(id engine.TokenID) error {
	next := func(text []engine.TokenID, id engine.TokenID) int {
		return slices.Compare(text[c.at:min(c.at+1, len(text))], []engine.TokenID{id})
	}
	from, found := slices.BinarySearchFunc(c.open, id, next)
	if !found {
		return fmt.Errorf("no choice goes on with token %d after %d tokens", id, c.at)
	}
	to := from
	for to < len(c.open) && c.open[to][c.at] == id {
		to++
	}
	c.open = c.open[from:to]
	c.at++
	return nil
}

// Allowed implements Constraint.
func (c *Choices) Allowed() (set engine.TokenSet, end bool, err error) {
	var ids []engine.TokenID
	for _, text := range c.open {
		switch {
		case len(text) == c.at:
			end = true
		case len(ids) == 0 || ids[len(ids)-1] != text[c.at]:
			ids = append(ids, text[c.at])
		}
	}
	return engine.NewTokenSet(ids...), end, nil
}

// Clone implements Constraint.
func (c *Choices) Clone() (Constraint, error) {
	twin := *c
	return &twin, nil
}

// Close implements Constraint.
func (c *Choices) Close() {}
