package blob

import (
	"fmt"
	"net"
	"sync"
)

// Reader reads the blobs of other processes. Its methods are safe for concurrent use.
type Reader struct {
	dir string

	mu     sync.Mutex
	stores map[place]remote // guarded by mu; nil after Close
}

// remote is a store of another process. Its errors are ErrGone, ErrAway and ErrSize.
type remote interface {
	read(n *name, dst []byte) error
	release(n *name) error
	close()
}

// NewReader makes a Reader that finds stores of this host in dir. The caller closes it.
func NewReader(dir string) *Reader { return &Reader{dir: dir, stores: map[place]remote{}} }

// Read fills dst with the bytes of a blob, which must be as many. Its errors are ErrName, ErrGone, ErrAway and
// ErrSize, and net.ErrClosed after Close; what is in dst is undefined then. A store that does not answer costs
// its readers seconds, and those of the next seconds nothing.
func (r *Reader) Read(text string, dst []byte) error {
	from, n, err := r.parseBlobName(text)
	if err == nil {
		err = from.read(&n, dst)
	}
	if err != nil {
		return fmt.Errorf("blob: read %d bytes: %w", len(dst), err)
	}
	return nil
}

// Take is Read of a blob that nobody needs afterwards: a store with Hold drops it then, and not only in the end.
func (r *Reader) Take(text string, dst []byte) error {
	if err := r.Read(text, dst); err != nil {
		return err
	}
	if from, n, err := r.parseBlobName(text); err == nil {
		_ = from.release(&n)
	}
	return nil
}

// parseBlobName reads a name. The connection to its store may have to be made yet.
func (r *Reader) parseBlobName(text string) (remote, name, error) {
	n, err := parseName(text)
	if err != nil {
		return nil, n, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stores == nil {
		return nil, n, net.ErrClosed
	}
	p := n.place
	s := r.stores[p]
	switch {
	case s != nil:
		return s, n, nil
	case p.address == "":
		s = &neighbour{path: socketPath(r.dir, p.store), lost: func() { r.forget(p, s) }}
	default:
		s = &distant{place: p}
	}
	r.stores[p] = s
	return s, n, nil
}

// forget drops the connection to a store of this host that has gone.
func (r *Reader) forget(p place, s remote) {
	r.mu.Lock()
	if r.stores[p] == s {
		delete(r.stores, p)
	}
	r.mu.Unlock()
	s.close()
}

// Close ends all connections. A Read that goes on may fail.
func (r *Reader) Close() error {
	r.mu.Lock()
	stores := r.stores
	r.stores = nil
	r.mu.Unlock()
	for _, s := range stores {
		s.close()
	}
	return nil
}
