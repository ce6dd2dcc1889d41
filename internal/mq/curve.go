package mq

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	zmq "github.com/pebbe/zmq4"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// RoleScheduler is the role of the key of the side that listens.
const RoleScheduler wire.Role = "scheduler"

// KeyRoles are what a key can be for. One key is for one role.
var KeyRoles = []wire.Role{RoleScheduler, wire.RoleFrontend, wire.RoleExecutor}

// Curve holds the keys of CurveZMQ (RFC 26/CURVEZMQ), all in Z85 text of 40 characters.
type Curve struct {
	Public, Secret string
	Server         string               // Dial: the scheduler's public key
	Authorized     map[string]wire.Role // Listen: the public keys that may connect, and as what
}

const z85KeyLen = 40

// NewKeys writes a new key pair for a role: the secret file (mode 0600) holds both keys, the public one only
// what others may know. Files that exist are not overwritten.
func NewKeys(role wire.Role, secretFile, publicFile string) error {
	public, secret, err := zmq.NewCurveKeypair()
	if err != nil {
		return fmt.Errorf("mq: make a key pair: %w", err)
	}
	line := string(role) + " " + public + "\n"
	if err := writeNew(secretFile, 0o600, line+"secret "+secret+"\n"); err != nil {
		return err
	}
	return writeNew(publicFile, 0o644, line)
}

func writeNew(file string, mode os.FileMode, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// LoadCurve reads the key pair of this process, which is for role, and the public keys of the others: of the
// scheduler (one, for Dial) or of the frontends and executors that may connect (any number, for Listen).
func LoadCurve(role wire.Role, secretFile, othersFile string) (*Curve, error) {
	own, err := readKeys(secretFile)
	if err != nil {
		return nil, err
	}
	c := &Curve{Authorized: map[string]wire.Role{}}
	for _, k := range own {
		switch k.word {
		case "secret":
			c.Secret = k.key
		case string(role):
			c.Public = k.key
		default:
			return nil, fmt.Errorf("%s is the key of one %s, this is the %s: make another with `prefillonly keygen %s NAME`", secretFile, k.word, role, role)
		}
	}
	if c.Public == "" || c.Secret == "" || len(own) != 2 {
		return nil, fmt.Errorf("%s: want one line `%s KEY` and one line `secret KEY`, as `prefillonly keygen` writes them", secretFile, role)
	}
	return c, c.addOthers(role, othersFile)
}

// addOthers reads the keys of the other side.
func (c *Curve) addOthers(role wire.Role, file string) error {
	others, err := readKeys(file)
	if err != nil {
		return err
	}
	for _, k := range others {
		other := wire.Role(k.word)
		switch known, again := c.Authorized[k.key]; {
		case k.word == "secret":
			return fmt.Errorf("%s holds a secret key; only the .pub files belong there", file)
		case (other == RoleScheduler) == (role == RoleScheduler):
			return fmt.Errorf("%s: the key of one %s is not one that the %s talks to", file, other, role)
		case again && known != other:
			return fmt.Errorf("%s: %s is the key of one %s and of one %s; a key has one role", file, k.key, known, other)
		}
		c.Authorized[k.key], c.Server = other, k.key
	}
	switch {
	case len(c.Authorized) == 0:
		return fmt.Errorf("%s: no public key; the .pub files of `prefillonly keygen` belong there", file)
	case role != RoleScheduler && len(c.Authorized) > 1:
		return fmt.Errorf("%s: %d keys of schedulers, want the one to talk to", file, len(c.Authorized))
	}
	return nil
}

// namedKey is a line of a key file: a role or the word secret, and a key.
type namedKey struct{ word, key string }

// readKeys reads lines of a word and a key; empty lines and lines from # on are comments.
func readKeys(file string) ([]namedKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CURVE keys: %w", err)
	}
	var keys []namedKey
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		word, key, _ := strings.Cut(line, " ")
		if word != "secret" && !slices.Contains(KeyRoles, wire.Role(word)) || len(key) != z85KeyLen {
			return nil, fmt.Errorf("%s line %d: want `scheduler KEY`, `frontend KEY`, `executor KEY` or `secret KEY` with a key of %d characters, as `prefillonly keygen` writes them", file, n, z85KeyLen)
		}
		keys = append(keys, namedKey{word, key})
	}
	return keys, lines.Err()
}

// userID is the name under which libzmq keeps, with a connection, the key that the guard has let in.
const userID = "User-Id"

// guard answers libzmq's question whether a client's key may connect (RFC 27/ZAP).
type guard struct {
	soc   *socket
	roles map[string]wire.Role // by public key
}

// serveCurve makes s a CURVE server that admits the authorized keys.
func serveCurve(s *socket, c *Curve) (*guard, error) {
	g := &guard{roles: c.Authorized}
	var err error
	if g.soc, err = newSocket(zmq.ROUTER, s.zctx); err != nil {
		return nil, err
	}
	if err := firstError(g.soc.soc.Bind("inproc://zeromq.zap.01"), s.soc.ServerAuthCurve("prefillonly", c.Secret), g.soc.serveReadable(g.answerRequests)); err != nil {
		g.soc.discard()
		return nil, err
	}
	return g, nil
}

// answerRequests replies to every waiting question. The frames of one are: the asker, an empty one, version,
// request id, domain, address, identity, mechanism, and the client's public key.
func (g *guard) answerRequests() {
	for {
		q, ok := g.soc.receiveMessage()
		if !ok {
			return
		}
		if len(q) < 8 {
			continue
		}
		status, text, key := "400", "this public key is not authorized", ""
		if len(q) == 9 && string(q[7]) == "CURVE" {
			key = zmq.Z85encode(string(q[8]))
		}
		if g.roles[key] != "" {
			status, text = "200", "OK"
		}
		_ = g.soc.sendFrames(q[0], q[1], q[2], q[3], []byte(status), []byte(text), []byte(key), nil)
	}
}

func (g *guard) close() { g.soc.close() }
