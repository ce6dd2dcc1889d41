// Package catalog finds out which tensors of several checkpoints are equal, and reads as little of them for
// it as it can.
//
// A tensor whose type and shape no other checkpoint has is not read. Of those that are alike the first bytes
// are compared, and only where these are equal too are the tensors hashed: models that were trained apart cost
// next to nothing, however many there are, and fine-tunes of one another are read once. Hashes are kept in
// a directory of the caller's, for as long as the files stay what they are.
package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// Digest is a tensor's SHA-256.
type Digest [sha256.Size]byte

// Catalog knows the tensors of checkpoints. Its methods may be called by several goroutines; they take turns.
type Catalog struct {
	dir string

	mu       sync.Mutex
	groups   map[form]*group
	members  map[*weights.Checkpoint][]*content // of each of its tensors
	sidecars map[string]*sidecar                // by the file's path
}

// form is what tensors must have in common to be equal.
type form struct{ dtype, shape string }

// group is the contents of one form.
type group struct {
	ids       map[weights.ID]*content
	unsampled []*content
	sampled   map[Digest][]*content // by their first bytes
}

// content is what several tensors hold that are known to be equal, or one tensor.
type content struct {
	id      weights.ID
	tensors []tensor // the first one is read for all
	sampled bool
	sample  Digest // of the first bytes
	hashed  bool
	digest  Digest
}

// tensor is one of a checkpoint's.
type tensor struct {
	checkpoint *weights.Checkpoint
	weights.Entry
}

func (t tensor) typeAndShape() form { return form{t.Type, fmt.Sprint(t.Shape)} }

// New returns an empty catalog that keeps hashes in dir, or nowhere where that is empty.
func New(dir string) *Catalog {
	return &Catalog{dir: dir, groups: map[form]*group{}, members: map[*weights.Checkpoint][]*content{}, sidecars: map[string]*sidecar{}}
}

// Add compares a checkpoint's tensors with those of all that were added before: equal ones have the ID of
// the first from then on. IDs of checkpoints that were added do not change. It reads files, and may take as long
// as reading all of them: progress, which may be nil, is told of the bytes that are hashed, and ctx ends it. After
// an error the checkpoint is not added, and as it was.
func (c *Catalog) Add(ctx context.Context, checkpoint *weights.Checkpoint, progress func(done, total int64)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[checkpoint] != nil {
		return nil
	}
	var added []*content
	for _, e := range checkpoint.Entries() {
		added = append(added, &content{id: checkpoint.Alone(e.Name), tensors: []tensor{{checkpoint, e}}})
	}
	var pairs []pair
	for _, own := range added {
		found, err := c.findCandidates(own)
		if err != nil {
			return err
		}
		for _, other := range found {
			pairs = append(pairs, pair{own, other})
		}
	}
	if err := c.hashPairs(ctx, pairs, progress); err != nil {
		return err
	}
	same := map[*content]*content{}
	for _, p := range pairs {
		if p.equal() && same[p.own] == nil {
			same[p.own] = p.other
		}
	}
	for i, own := range added {
		if other := same[own]; other != nil {
			t := own.tensors[0]
			other.tensors = append(other.tensors, t)
			checkpoint.Equate(t.Name, other.id)
			added[i] = other
		} else {
			c.groupOf(own).addContent(own)
		}
	}
	c.members[checkpoint] = added
	return nil
}

// groupOf is the one of a content's form.
func (c *Catalog) groupOf(k *content) *group {
	f := k.tensors[0].typeAndShape()
	g := c.groups[f]
	if g == nil {
		g = &group{ids: map[weights.ID]*content{}, sampled: map[Digest][]*content{}}
		c.groups[f] = g
	}
	return g
}

func (g *group) addContent(k *content) {
	g.ids[k.id] = k
	if k.sampled {
		g.sampled[k.sample] = append(g.sampled[k.sample], k)
	} else {
		g.unsampled = append(g.unsampled, k)
	}
}

func (g *group) removeContent(k *content) {
	same := func(other *content) bool { return other == k }
	delete(g.ids, k.id)
	g.unsampled = slices.DeleteFunc(g.unsampled, same)
	if g.sampled[k.sample] = slices.DeleteFunc(g.sampled[k.sample], same); len(g.sampled[k.sample]) == 0 {
		delete(g.sampled, k.sample)
	}
}

// pair is a tensor that is added, and one of another checkpoint that may be equal.
type pair struct{ own, other *content }

func (p pair) equal() bool {
	return p.own.id == p.other.id || p.own.hashed && p.other.hashed && p.own.digest == p.other.digest
}

// findCandidates lists the contents that may be that of a tensor: those of its form that begin alike.
func (c *Catalog) findCandidates(own *content) ([]*content, error) {
	g := c.groupOf(own)
	if other := g.ids[own.id]; other != nil { // it is in the same file
		return []*content{other}, nil
	}
	if len(g.ids) == 0 {
		return nil, nil
	}
	if err := own.readSample(); err != nil {
		return nil, err
	}
	g.unsampled = slices.DeleteFunc(g.unsampled, func(other *content) bool {
		if other.readSample() != nil { // its file has changed since: nothing is its equal
			return false
		}
		g.sampled[other.sample] = append(g.sampled[other.sample], other)
		return true
	})
	return g.sampled[own.sample], nil
}

// sampleBytes is how much of a tensor is compared before all of it is read.
const sampleBytes = 4096

// readSample reads the first bytes.
func (k *content) readSample() error {
	if k.sampled {
		return nil
	}
	digest, err := k.tensors[0].hashPrefix(sampleBytes, func(int) error { return nil })
	if err != nil {
		return err
	}
	k.sampled, k.sample = true, digest
	if k.tensors[0].Bytes <= sampleBytes {
		k.hashed, k.digest = true, digest
	}
	return nil
}

// hashPrefix hashes a tensor's first bytes, and tells of each part.
func (t tensor) hashPrefix(most int64, part func(n int) error) (Digest, error) {
	h := sha256.New()
	err := t.checkpoint.Copy(writerFunc(func(p []byte) (int, error) {
		h.Write(p)
		return len(p), part(len(p))
	}), t.Name, most)
	return Digest(h.Sum(nil)), err
}

// whole is all of a tensor.
const whole = math.MaxInt64

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Remove forgets a checkpoint's tensors. Its IDs stay what they are.
func (c *Catalog) Remove(checkpoint *weights.Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range uniqueContents(c.members[checkpoint]) {
		left := slices.DeleteFunc(slices.Clone(k.tensors), func(t tensor) bool { return t.checkpoint == checkpoint })
		if len(left) == 0 {
			if g := c.groupOf(k); len(g.ids) == 1 {
				delete(c.groups, k.tensors[0].typeAndShape())
			} else {
				g.removeContent(k)
			}
			continue
		}
		k.tensors = left
	}
	delete(c.members, checkpoint)
	for _, f := range checkpoint.Files() {
		delete(c.sidecars, f.Path)
	}
}
