package mq

import (
	"fmt"
	"sync"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// maxNames bounds the names that one key may take.
const maxNames = 4096

// owner is whose a connection is under CURVE; the zero value without.
type owner struct {
	key  string
	role wire.Role
}

// directory says which connection is whose. A peer's name is that of its Hello, and a later Hello of the
// same name takes it over: the peer has connected again, or was started again. Under CURVE a Hello must be
// of the role of its key, and a name stays with the key that first said it, so that no other can get
// what is meant for it. The zero value is empty.
type directory struct {
	mu    sync.Mutex
	peers map[string]claim  // guarded by mu; by name
	names map[string]string // guarded by mu; by connection
	taken map[string]int    // guarded by mu; names of each key
}

// claim is a name's owner and connection; the connection is empty when it is gone.
type claim struct {
	owner      owner
	connection string
}

// registerPeer gives a connection the name of its Hello, or says why it must not have it.
func (d *directory) registerPeer(connection string, o owner, m *wire.Hello) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.peers[m.Name]
	switch {
	case m.Name == "":
		return fmt.Errorf("a Hello without a name")
	case m.Role != o.role && o.key != "":
		return fmt.Errorf("%q says Hello as one %s with the key of one %s", m.Name, m.Role, o.role)
	case ok && known.owner.key != o.key:
		return fmt.Errorf("%q is the name of a peer with another key", m.Name)
	case !ok && o.key != "" && d.taken[o.key] >= maxNames:
		return fmt.Errorf("%q would be name number %d of one key", m.Name, maxNames+1)
	case known.connection == connection && ok:
		return nil
	}
	if d.peers == nil {
		d.peers, d.names, d.taken = map[string]claim{}, map[string]string{}, map[string]int{}
	}
	d.releaseName(connection)
	delete(d.names, known.connection)
	if !ok && o.key != "" {
		d.taken[o.key]++
	}
	d.peers[m.Name] = claim{o, connection}
	d.names[connection] = m.Name
	return nil
}

// releaseName takes a connection's name from it, under mu. Without a key nothing has to be remembered.
func (d *directory) releaseName(connection string) {
	name, ok := d.names[connection]
	if !ok {
		return
	}
	delete(d.names, connection)
	if c := d.peers[name]; c.owner.key == "" {
		delete(d.peers, name)
	} else {
		d.peers[name] = claim{owner: c.owner}
	}
}

// forgetConnection forgets a connection that has ended.
func (d *directory) forgetConnection(connection string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseName(connection)
}

// name is the peer at a connection, or empty before its Hello.
func (d *directory) name(connection string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[connection]
}

// connectionOf is where a peer is, or empty when it is away.
func (d *directory) connectionOf(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peers[name].connection
}
