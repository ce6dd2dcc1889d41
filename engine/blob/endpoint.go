package blob

import (
	"errors"
	"net"
	"sync"
)

// Endpoint passes blobs of one process both ways: it reads those of others and keeps its own in a Store, which it
// opens with the first one, so that a process without blobs has no memory or socket for them. Its methods are safe
// for concurrent use.
type Endpoint struct {
	*Reader
	config func() (Config, error)

	mu     sync.Mutex
	store  *Store // guarded by mu; nil before the first blob
	closed bool   // guarded by mu
}

// NewEndpoint makes an Endpoint that finds the stores of this host in dir, where other hosts have none. The store's
// Config is asked for when it is opened. The caller closes the Endpoint.
func NewEndpoint(dir string, config func() (Config, error)) *Endpoint {
	return &Endpoint{Reader: NewReader(dir), config: config}
}

// Put is Store.Put. An error in opening the store is returned each time.
func (e *Endpoint) Put(data []byte) (string, error) { return e.PutFor("", data) }

// PutFor is Store.PutFor, with Put's errors.
func (e *Endpoint) PutFor(holder string, data []byte) (string, error) {
	s, err := e.open()
	if err != nil {
		return "", err
	}
	return s.PutFor(holder, data)
}

func (e *Endpoint) open() (*Store, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, net.ErrClosed
	case e.store != nil:
		return e.store, nil
	}
	cfg, err := e.config()
	if err == nil {
		e.store, err = NewStore(cfg)
	}
	return e.store, err
}

// Release is Store.Release.
func (e *Endpoint) Release(blob string) {
	e.mu.Lock()
	s := e.store
	e.mu.Unlock()
	if s != nil {
		s.Release(blob)
	}
}

// Close closes the reader and the store.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	err := e.Reader.Close()
	if e.store != nil {
		err = errors.Join(err, e.store.Close())
	}
	return err
}
