package catalog

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
)

// workers is how many tensors are hashed at a time: more do not read faster from one disk.
const workers = 4

// hashPairs makes sure that both of each pair are hashed, unless one is known to be the other. Those whose files
// changed meanwhile stay without a digest, unless they are to be added: that is an error.
func (c *Catalog) hashPairs(ctx context.Context, pairs []pair, progress func(done, total int64)) error {
	own := map[*content]bool{}
	var todo []*content
	for _, p := range pairs {
		if p.own.id == p.other.id {
			continue
		}
		own[p.own] = true
		todo = append(todo, p.own, p.other)
	}
	todo = uniqueContents(todo)
	touched := map[*sidecar]bool{}
	todo = slices.DeleteFunc(todo, func(k *content) bool {
		if !k.hashed {
			k.digest, k.hashed = c.sidecarOf(k.tensors[0]).knownDigest(k.tensors[0])
		}
		return k.hashed
	})
	err := hashAll(ctx, todo, own, progress)
	for _, k := range todo {
		if s := c.sidecarOf(k.tensors[0]); k.hashed {
			s.Digests[k.tensors[0].Name] = hexDigest(k.digest)
			touched[s] = true
		}
	}
	for s := range touched {
		c.writeSidecar(s)
	}
	return err
}

func uniqueContents(list []*content) []*content {
	seen := map[*content]bool{}
	return slices.DeleteFunc(list, func(k *content) bool {
		was := seen[k]
		seen[k] = true
		return was
	})
}

// hashAll hashes tensors, the largest first, until all are or one of those that must be is not.
func hashAll(ctx context.Context, todo []*content, must map[*content]bool, progress func(done, total int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slices.SortStableFunc(todo, func(a, b *content) int { return cmp.Compare(b.tensors[0].Bytes, a.tensors[0].Bytes) })
	tell := newHashCounter(todo, progress)
	next := make(chan *content)
	var group sync.WaitGroup
	for range min(workers, runtime.GOMAXPROCS(0)) {
		group.Go(func() { // ends with next
			for k := range next {
				digest, err := k.tensors[0].hashPrefix(whole, func(n int) error {
					tell(n)
					return context.Cause(ctx)
				})
				if err == nil {
					k.digest, k.hashed = digest, true
				} else if must[k] {
					cancel(err)
				}
			}
		})
	}
	for _, k := range todo {
		next <- k
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// newHashCounter adds up what is hashed, and tells of it.
func newHashCounter(todo []*content, progress func(done, total int64)) func(n int) {
	var done, total int64
	for _, k := range todo {
		total += k.tensors[0].Bytes
	}
	var mu sync.Mutex
	return func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if done += int64(n); progress != nil {
			progress(done, total)
		}
	}
}
