package blob

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
)

// TestEndpoint: two processes' endpoints read each other's blobs; a store is opened with the first blob alone.
func TestEndpoint(t *testing.T) {
	dir := t.TempDir()
	endpoint := func() *Endpoint {
		e := NewEndpoint(dir, func() (Config, error) { return Config{Limit: 1 << 20, Dir: dir}, nil })
		t.Cleanup(func() { e.Close() })
		return e
	}
	a, b := endpoint(), endpoint()
	a.Release("of no store")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Fatalf("%d files before the first blob, %v", len(files), err)
	}
	for i, way := range [][2]*Endpoint{{a, b}, {b, a}, {a, b}} {
		want, got := []byte{1, 2, byte(i)}, make([]byte, 3)
		name, err := way[0].Put(want)
		if err == nil {
			err = way[1].Read(name, got)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: read %v, want %v", err, got, want)
		}
		way[0].Release(name)
		if err := way[1].Read(name, got); !errors.Is(err, ErrGone) {
			t.Errorf("a released blob: %v", err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.Put(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files of one open store, %v", len(files), err)
	}
}

// TestEndpointCannotOpen: each Put tells why, until the cause is gone.
func TestEndpointCannotOpen(t *testing.T) {
	broken := errors.New("no address")
	e := NewEndpoint("", func() (Config, error) { return Config{Limit: 1 << 20, Listen: "127.0.0.1:0"}, broken })
	defer e.Close()
	for range 2 {
		if _, err := e.Put(nil); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	broken = nil
	if _, err := e.Put(nil); err != nil {
		t.Error(err)
	}
}
