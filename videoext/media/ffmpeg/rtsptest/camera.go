// Package rtsptest is a camera that speaks RTSP, for tests of what reads from one.
package rtsptest

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Rate is how many frames a second the times of a Camera's frames say.
const Rate = 12

// Camera is an RTSP server (RFC 2326), which plays units in turn to each client over the connection itself (RFC 6184 in interleaved frames),
// frame by frame, and then is silent. Its fields are set before Start.
type Camera struct {
	Units  []media.Unit       // in the order of time
	Pace   time.Duration      // from one to the next
	HangUp bool               // after the last one
	Loop   bool               // the first follows the last one
	First  int                // unit that is played first
	Stamp  func(i int) uint32 // the time of the i-th unit that is played, in 90,000ths of a second; nil: by Rate
	Tracks int                // that it says it has, all of them alike; 0: 1
	Sends  string             // clients to this URL, in which %s is its own address; empty: nowhere
	Says   func() string      // its description; nil: Description

	address   string
	connected atomic.Int64
	group     sync.WaitGroup

	mu          sync.Mutex
	listener    net.Listener      // guarded by mu; nil: it is away
	connections map[net.Conn]bool // guarded by mu
}

// Start has it take clients until the test ends, and returns its URL.
func (c *Camera) Start(t testing.TB) (url string) {
	t.Helper()
	c.address, c.connections = "127.0.0.1:0", map[net.Conn]bool{}
	c.Back(t)
	c.address = c.listener.Addr().String()
	t.Cleanup(c.Away)
	return "rtsp://user:secret@" + c.address + "/stream"
}

// Connected is how many connections there were.
func (c *Camera) Connected() int { return int(c.connected.Load()) }

// Open is how many connections there are.
func (c *Camera) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.connections)
}

// Away ends all connections and takes no others, until Back.
func (c *Camera) Away() {
	c.mu.Lock()
	if c.listener != nil {
		_ = c.listener.Close() // nothing depends on it
	}
	c.listener = nil
	for connection := range c.connections {
		_ = connection.Close() // nor on these
	}
	c.mu.Unlock()
	c.group.Wait()
}

// Back takes clients again, at the same address.
func (c *Camera) Back(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.listener = listener
	c.mu.Unlock()
	c.group.Go(func() { // ended by Away
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			c.connected.Add(1)
			if c.addConnection(connection) {
				c.group.Go(func() { // ended by Away
					_ = c.serveConnection(connection) // the client may leave at any time
					c.closeConnection(connection)
				})
			}
		}
	})
}

func (c *Camera) addConnection(connection net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener == nil {
		_ = connection.Close() // it is gone
		return false
	}
	c.connections[connection] = true
	return true
}

func (c *Camera) closeConnection(connection net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.connections, connection)
	_ = connection.Close() // nobody reads any more
}

func (c *Camera) serveConnection(connection net.Conn) error {
	in := textproto.NewReader(bufio.NewReader(connection))
	for {
		request, err := in.ReadLine()
		if err != nil {
			return err
		}
		header, err := in.ReadMIMEHeader()
		if err != nil {
			return err
		}
		method, _, _ := strings.Cut(request, " ")
		status, more, body := "200 OK", "", ""
		switch method {
		case "DESCRIBE":
			body = c.Description()
			if c.Says != nil {
				body = c.Says()
			}
			more = "Content-Type: application/sdp\r\n"
		case "SETUP":
			more = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"
		case "OPTIONS":
			more = "Public: DESCRIBE, SETUP, PLAY\r\n"
		}
		if method == "DESCRIBE" && c.Sends != "" {
			status, body = "302 Found", ""
			more = "Location: " + strings.Replace(c.Sends, "%s", connection.LocalAddr().String(), 1) + "\r\n"
		}
		if _, err := fmt.Fprintf(connection, "RTSP/1.0 %s\r\nCSeq: %s\r\nSession: 1\r\n%sContent-Length: %d\r\n\r\n%s", status, header.Get("CSeq"), more, len(body), body); err != nil {
			return err
		}
		if method == "PLAY" {
			return c.sendPackets(connection, in)
		}
	}
}

// Description is what its units and tracks are, in SDP (RFC 8866).
func (c *Camera) Description() string {
	var sets []string
	for _, n := range media.NALUnits(c.Units[0].Data) {
		if n.Type == media.NALSequence || n.Type == media.NALPicture {
			sets = append(sets, base64.StdEncoding.EncodeToString(nalPayload(n)))
		}
	}
	track := "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;sprop-parameter-sets=" + strings.Join(sets, ",") + "\r\na=control:track\r\n"
	return "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=test\r\nt=0 0\r\n" + strings.Repeat(track, max(c.Tracks, 1))
}

// nalPayload is a NAL unit without its start code.
func nalPayload(n media.NAL) []byte { return n.Data[bytes.IndexByte(n.Data, 1)+1:] }

func (c *Camera) rtpTimestamp(i int) uint32 {
	if c.Stamp != nil {
		return c.Stamp(i)
	}
	return uint32(i) * 90000 / Rate
}

func (c *Camera) sendPackets(connection net.Conn, in *textproto.Reader) error {
	sequence := uint16(0)
	for i := c.First; c.Loop || i < len(c.Units); i++ {
		units := media.NALUnits(c.Units[i%len(c.Units)].Data)
		for j, n := range units {
			packet := []byte{0x80, 96, 0, 0}
			if j == len(units)-1 {
				packet[1] |= 0x80 // the frame's end
			}
			binary.BigEndian.PutUint16(packet[2:], sequence)
			packet = binary.BigEndian.AppendUint32(packet, c.rtpTimestamp(i-c.First))
			packet = binary.BigEndian.AppendUint32(packet, 1)
			packet = append(packet, nalPayload(n)...)
			sequence++
			head := binary.BigEndian.AppendUint16([]byte{'$', 0}, uint16(len(packet)))
			if _, err := connection.Write(append(head, packet...)); err != nil {
				return err
			}
		}
		time.Sleep(c.Pace)
	}
	if c.HangUp {
		return nil
	}
	_, err := in.ReadLine() // until the client leaves
	return err
}

// plain is the drawn clip of the decoder's tests without B frames.
//
//go:embed plain.h264
var plain []byte

// Drawn are 24 frames of 96 x 64 pixels, those of drawn.mkv among the decoder's test data.
func Drawn() []media.Unit {
	var units []media.Unit
	var unit []byte
	for _, n := range media.NALUnits(plain) {
		if n.Type != 6 {
			unit = append(unit, n.Data...)
		}
		if n.Type == media.NALSlice || n.Type == media.NALIDR {
			units = append(units, media.Unit{Data: unit, Order: len(units)})
			unit = nil
		}
	}
	return units
}
