package processors

import (
	"context"
	"encoding/gob"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// backlog is how many replies may wait for a process to read them. One that reads none is cut off: its slots are given back.
const backlog = 256

// host is the order of all processes of a machine.
type host struct {
	group sync.WaitGroup

	// guarded by mu
	mu      sync.Mutex
	core    *stages.Core
	members map[*member]bool
	last    uint64
	owners  map[uint64]stageOf // of what the core knows
	waited  bool               // members know that stages wait
}

// stageOf is a stage of a member, by its own id.
type stageOf struct {
	member *member
	id     uint64
}

// member is a process that follows the order.
type member struct {
	name   string // to the core
	conn   net.Conn
	ids    map[uint64]uint64 // the core's, by the member's; guarded by host.mu
	out    chan reply
	closed bool // out is; guarded by host.mu
	told   load // the last that it was told of; guarded by host.mu
}

// Serve has all processes that Follow a path keep to one order, until ctx ends.
func Serve(ctx context.Context, path string, parameters stages.Parameters) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return err
	}
	h := &host{core: stages.New(parameters), members: map[*member]bool{}, owners: map[uint64]stageOf{}}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	h.group.Go(func() { h.expireSlots(ctx) }) // ends with ctx
	for ctx.Err() == nil {
		conn, err := listener.Accept()
		if err != nil {
			wait(ctx, redial) // such as for a file descriptor
			continue
		}
		h.group.Go(func() { h.serveMember(conn) }) // ends with the connection
	}
	h.closeAll()
	h.group.Wait()
	return nil
}

// expireSlots ends slots that are held for too long, and tells members of the load, should it have changed.
func (h *host) expireSlots(ctx context.Context) {
	tick := time.NewTicker(silence)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		h.stepCore(stages.Tick{})
		for m := range h.members {
			if m.told != h.currentLoad() {
				h.tellMember(m, nil)
			}
		}
		h.mu.Unlock()
	}
}

// currentLoad is what members are told of the host; the caller holds mu.
func (h *host) currentLoad() load {
	return load{h.core.Slots(), h.core.Outside(), h.core.Waiting(), h.core.Running()}
}

// tellAll tells every member of the load, and what was decided of its stages; the caller holds mu.
func (h *host) tellAll(decided map[*member][]stages.Action) {
	h.waited = h.core.Waiting() > 0
	for m := range h.members {
		h.tellMember(m, decided[m])
	}
}

func (h *host) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.members {
		m.conn.Close()
	}
}

// serveMember takes the events of a process until it is gone; then its slots are given back.
func (h *host) serveMember(conn net.Conn) {
	m := &member{conn: conn, ids: map[uint64]uint64{}, out: make(chan reply, backlog)}
	h.group.Go(func() { m.writeMessages() }) // ends when out is closed
	h.mu.Lock()
	h.last++
	m.name = strconv.FormatUint(h.last, 10)
	h.members[m] = true
	h.tellMember(m, nil)
	h.mu.Unlock()
	in := gob.NewDecoder(conn)
	for {
		var r request
		if in.Decode(&r) != nil {
			break
		}
		h.mu.Lock()
		h.acceptMessage(m, &r)
		h.mu.Unlock()
	}
	conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.members, m)
	for _, id := range m.ids {
		delete(h.owners, id)
	}
	h.stepCore(stages.Gone{Client: m.name})
	h.closeOut(m)
}

// writeMessages sends what a member is told.
func (m *member) writeMessages() {
	out := gob.NewEncoder(m.conn)
	for r := range m.out {
		_ = m.conn.SetWriteDeadline(time.Now().Add(silence))
		if out.Encode(r) != nil {
			m.conn.Close() // the member is gone
		}
	}
}

// acceptMessage takes a message of a member; the caller holds mu.
func (h *host) acceptMessage(m *member, r *request) {
	id, known := m.ids[r.ID]
	switch {
	case r.Op == opPing:
		h.tellMember(m, nil)
		return
	case r.Op == opAsk && !known:
		h.last++
		id = h.last
		m.ids[r.ID], h.owners[id] = id, stageOf{m, r.ID}
	case !known:
		return
	}
	if r.Op == opDone || r.Op == opWithdraw {
		h.forgetStage(id)
	}
	h.stepCore(r.event(time.Now(), m.name, id))
}

// forgetStage ends what is known of a stage; the caller holds mu.
func (h *host) forgetStage(id uint64) {
	if of, ok := h.owners[id]; ok {
		delete(of.member.ids, of.id)
		delete(h.owners, id)
	}
}

// stepCore has the core take an event, and tells members what it decides, and all of them when stages begin to wait or wait
// no more; the caller holds mu.
func (h *host) stepCore(event any) {
	decided := map[*member][]stages.Action{}
	for _, a := range h.core.Step(time.Now(), event) {
		of, ok := h.owners[a.ID]
		if !ok {
			continue
		}
		if a.Verdict != stages.Granted {
			h.forgetStage(a.ID)
		}
		a.ID = of.id
		decided[of.member] = append(decided[of.member], a)
	}
	if (h.core.Waiting() > 0) != h.waited {
		h.tellAll(decided)
		return
	}
	for m, actions := range decided {
		h.tellMember(m, actions)
	}
}

// tellMember sends a member what was decided, and the load; the caller holds mu.
func (h *host) tellMember(m *member, actions []stages.Action) {
	if m.closed {
		return
	}
	select {
	case m.out <- reply{actions, h.currentLoad()}:
		m.told = h.currentLoad()
	default:
		m.conn.Close() // it reads nothing; whoever reads its messages gives its slots back
	}
}

func (h *host) closeOut(m *member) {
	if !m.closed {
		m.closed = true
		close(m.out)
	}
}
