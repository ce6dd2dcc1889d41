package mq

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	zmq "github.com/pebbe/zmq4"
)

// Curve holds the keys of CurveZMQ (RFC 26/CURVEZMQ), all in Z85 text of 40 characters.
type Curve struct {
	Public, Secret string
	Server         string   // Dial: the scheduler's public key
	Authorized     []string // Listen: the public keys that may connect
}

const z85KeyLen = 40

// NewKeys writes a new key pair: the secret file (mode 0600) holds both keys, the public one only
// what others may know. Files that exist are not overwritten.
func NewKeys(secretFile, publicFile string) error {
	public, secret, err := zmq.NewCurveKeypair()
	if err != nil {
		return fmt.Errorf("mq: make a key pair: %w", err)
	}
	if err := writeNew(secretFile, 0o600, "public "+public+"\nsecret "+secret+"\n"); err != nil {
		return err
	}
	return writeNew(publicFile, 0o644, "public "+public+"\n")
}

func writeNew(file string, mode os.FileMode, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// LoadCurve reads this process's own key pair, and the public keys of the others: of the scheduler
// (one, for Dial) or of the peers that may connect (any number, for Listen).
func LoadCurve(secretFile, othersFile string) (*Curve, error) {
	c := new(Curve)
	own, err := readKeys(secretFile)
	if err != nil {
		return nil, err
	}
	if len(own["public"]) != 1 || len(own["secret"]) != 1 {
		return nil, fmt.Errorf("%s: want one line `public KEY` and one line `secret KEY`, as `prefillonly keygen` writes them", secretFile)
	}
	c.Public, c.Secret = own["public"][0], own["secret"][0]
	others, err := readKeys(othersFile)
	if err != nil {
		return nil, err
	}
	if len(others["public"]) == 0 {
		return nil, fmt.Errorf("%s: no line `public KEY`", othersFile)
	}
	c.Authorized = others["public"]
	c.Server = c.Authorized[0]
	return c, nil
}

// readKeys reads lines of a word and a key; empty lines and lines from # on are comments.
func readKeys(file string) (map[string][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CURVE keys: %w", err)
	}
	keys := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		word, key, _ := strings.Cut(line, " ")
		if (word != "public" && word != "secret") || len(key) != z85KeyLen {
			return nil, fmt.Errorf("%s line %d: want `public KEY` or `secret KEY` with a key of %d characters", file, n, z85KeyLen)
		}
		keys[word] = append(keys[word], key)
	}
	return keys, lines.Err()
}

// guard answers libzmq's question whether a client's key may connect (RFC 27/ZAP).
type guard struct {
	soc     *socket
	allowed map[string]bool // raw public keys
}

// serveCurve makes s a CURVE server that admits the authorized keys.
func serveCurve(s *socket, c *Curve) (*guard, error) {
	g := &guard{allowed: map[string]bool{}}
	for _, k := range c.Authorized {
		g.allowed[zmq.Z85decode(k)] = true
	}
	var err error
	if g.soc, err = newSocket(zmq.ROUTER, s.zctx); err != nil {
		return nil, err
	}
	if err := firstError(g.soc.soc.Bind("inproc://zeromq.zap.01"), s.soc.ServerAuthCurve("prefillonly", c.Secret), g.soc.serve(g.answer)); err != nil {
		g.soc.discard()
		return nil, err
	}
	return g, nil
}

// answer replies to every waiting question. The frames of one are: the asker, an empty one, version,
// request id, domain, address, identity, mechanism, and the client's public key.
func (g *guard) answer() {
	for {
		q, ok := g.soc.receive()
		if !ok {
			return
		}
		if len(q) < 8 {
			continue
		}
		status, text := "400", "this public key is not authorized"
		if len(q) == 9 && string(q[7]) == "CURVE" && g.allowed[string(q[8])] {
			status, text = "200", "OK"
		}
		_ = g.soc.send(q[0], q[1], q[2], q[3], []byte(status), []byte(text), nil, nil)
	}
}

func (g *guard) close() { g.soc.close() }
