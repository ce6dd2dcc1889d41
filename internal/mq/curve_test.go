package mq

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"
)

// TestCurve: an authorized key gets through, another one does not.
func TestCurve(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"scheduler", "friend", "stranger"} {
		if err := NewKeys(filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")); err != nil {
			t.Fatal(err)
		}
	}
	load := func(own, others string) Options {
		c, err := LoadCurve(filepath.Join(dir, own+".key"), filepath.Join(dir, others+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return Options{Curve: c}
	}
	l, err := Listen("tcp://0.0.0.0:*", load("scheduler", "friend"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	endpoint := strings.Replace(l.Endpoint(), "0.0.0.0", "127.0.0.1", 1)
	for _, name := range []string{"stranger", "friend"} {
		p, err := Dial(endpoint, name, load(name, "scheduler"))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if name == "friend" {
			greet(t, p, name)
		} else if err := p.Send(hello(name)); !errors.Is(err, ErrNoPeer) {
			t.Errorf("Send of a stranger = %v, want ErrNoPeer", err)
		}
	}
	mustServe(t, l, "friend")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if peer, m, err := l.Recv(ctx); err == nil {
		t.Errorf("got %+v of %q through", m, peer)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	key, pub := dir+"/a.key", dir+"/a.pub"
	if err := NewKeys(key, pub); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("secret file: %v, %v; want mode 0600", info.Mode(), err)
	}
	if err := NewKeys(key, pub); !errors.Is(err, os.ErrExist) {
		t.Errorf("NewKeys over existing files = %v, want ErrExist", err)
	}
	for text, want := range map[string]string{
		"public short\n": "line 1",
		"# nothing\n\n":  "no line `public KEY`",
	} {
		if err := os.WriteFile(dir+"/bad", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadCurve(key, dir+"/bad"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("others file %q: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := LoadCurve(pub, pub); err == nil || !strings.Contains(err.Error(), "secret KEY") {
		t.Errorf("a public file as the secret one: %v", err)
	}
	if !zmq.HasCurve() {
		t.Error("libzmq was built without CURVE")
	}
}
