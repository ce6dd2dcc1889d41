// Package merging finds the layers of networks that could have the same weights (GEMEL: Padmanabhan et al., "Gemel: Model Merging for
// Memory-Efficient, Real-Time Video Analytics at the Edge", NSDI 2023), and how many bytes that would save. It says nothing of accuracy:
// that comes from a Trainer, which is what a search for merges asks of whatever trains networks.
package merging

import (
	"cmp"
	"slices"
)

// Layer is one whose weights another may have, if it has the same signature.
type Layer struct {
	Name      string
	Signature string // operation, sizes and all else that its weights depend on
	Bytes     int64  // of the weights that can be shared
	Own       int64  // bytes of it that stay its own
}

// Model is a network's layers, in the order in which they are computed.
type Model struct {
	Name   string
	Layers []Layer
}

// Bytes are those of all layers.
func (m Model) Bytes() (sum int64) {
	for _, l := range m.Layers {
		sum += l.Bytes + l.Own
	}
	return sum
}

// Member is a layer of a model.
type Member struct {
	Model int
	Layer string
}

// Group is the layers that may have one copy of weights: of each model the Nth with the signature, from 0 on. Those of one model are
// never one, as each of them was trained for its place.
type Group struct {
	Signature string
	Nth       int
	Bytes     int64 // of one copy
	Members   []Member
}

// Saved is how many bytes less one copy takes.
func (g Group) Saved() int64 { return g.Bytes * int64(len(g.Members)-1) }

// Plan is what models could share.
type Plan struct {
	Models []Model
	Groups []Group // of two members and more, those that save most first
}

// NewPlan groups the layers of models.
func NewPlan(models []Model) *Plan {
	type key struct {
		signature string
		nth       int
		bytes     int64
	}
	groups := map[key]*Group{}
	var order []*Group
	for i, m := range models {
		seen := map[string]int{}
		for _, l := range m.Layers {
			k := key{l.Signature, seen[l.Signature], l.Bytes}
			seen[l.Signature]++
			if groups[k] == nil {
				groups[k] = &Group{Signature: l.Signature, Nth: k.nth, Bytes: l.Bytes}
				order = append(order, groups[k])
			}
			groups[k].Members = append(groups[k].Members, Member{i, l.Name})
		}
	}
	p := &Plan{Models: models}
	for _, g := range order {
		if len(g.Members) > 1 {
			p.Groups = append(p.Groups, *g)
		}
	}
	slices.SortStableFunc(p.Groups, func(a, b Group) int { return cmp.Compare(b.Saved(), a.Saved()) })
	return p
}

// Total is the bytes of all layers, each with weights of its own.
func (p *Plan) Total() (sum int64) {
	for _, m := range p.Models {
		sum += m.Bytes()
	}
	return sum
}

// Shared is the bytes that are saved at most: no accuracy allows more.
func (p *Plan) Shared() (sum int64) {
	for _, g := range p.Groups {
		sum += g.Saved()
	}
	return sum
}

// Stem is the bytes that are saved at most where models share nothing but their beginnings (Mainstream: Jiang et al., ATC 2018): a layer,
// if all before it are alike, too.
func (p *Plan) Stem() (sum int64) {
	var root stem
	for _, m := range p.Models {
		at := &root
		for _, l := range m.Layers {
			next := at.next[l.Signature]
			if next == nil {
				next = &stem{}
				if at.next == nil {
					at.next = map[string]*stem{}
				}
				at.next[l.Signature] = next
			} else {
				sum += l.Bytes
			}
			at = next
		}
	}
	return sum
}

// stem is where models that begin alike go on, by signature.
type stem struct{ next map[string]*stem }
