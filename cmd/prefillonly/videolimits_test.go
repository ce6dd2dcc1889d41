package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/session"
)

// sessionOf opens a camera's session on a connection of its own, and says Hello. What the server says comes from the reader.
func (p *program) sessionOf(stream string) (net.Conn, *bufio.Reader) {
	p.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		p.Fatal(err)
	}
	hello, err := session.Append(nil, &session.Hello{Width: 96, Height: 64, Rate: 12, Camera: "test"})
	if err != nil {
		p.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/video/streams/%s/camera HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", stream, len(hello), hello); err != nil {
		p.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// TestVideoConnections: cameras' sessions and readers of results count among an address's connections; a session of no stream is refused and its connection
// ends, although its body has no end; and a declaration without an end does not wait for ever.
func TestVideoConnections(t *testing.T) {
	p := serveEyes(t, eyeEntry("eye", eyeFile(t, 1)), "--max-connections-per-address", "4")
	for i := range 3 {
		p.mustDeclare(fmt.Sprintf(`{"name":"s%d","source":"camera"}`, i))
	}
	http.DefaultClient.CloseIdleConnections()
	_, refused := p.sessionOf("none")
	response, err := http.ReadResponse(refused, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, response); response.StatusCode != http.StatusNotFound || !strings.Contains(text, "stream_not_found") {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	if n, err := io.Copy(io.Discard, refused); err != nil || n > 0 {
		t.Errorf("the connection of a session that was refused goes on: %d bytes, %v", n, err)
	}
	open := []net.Conn{}
	for i := range 3 {
		conn, from := p.sessionOf(fmt.Sprint("s", i))
		if response, err := http.ReadResponse(from, nil); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("session %d: %+v, %v", i, response, err)
		}
		open = append(open, conn)
	}
	p.until("the last connection is taken", func() bool { // that of the refused one may count a moment longer
		conn, from := p.sessionOf("s0")
		open = append(open, conn)
		response, err := http.ReadResponse(from, nil)
		return err != nil || response.StatusCode == http.StatusTooManyRequests
	})
	for _, conn := range open {
		conn.Close()
	}
	p.until("there is room again", func() bool {
		_, ok := p.streamIs("s0")
		return ok
	})
}

// TestVideoDrain: a server that is told to end does not wait for those whose sessions and results have no end.
func TestVideoDrain(t *testing.T) {
	p := serveEyes(t, eyeEntry("eye", eyeFile(t, 1)))
	p.mustDeclare(`{"name":"door","source":"camera"}`)
	p.mustDeclare(`{"name":"clip","source":"drawn.mp4","loop":true}`)
	_, from := p.sessionOf("door")
	results, err := http.Get(p.base + "/v1/video/streams/clip/results")
	if err != nil {
		t.Fatal(err)
	}
	defer results.Body.Close()
	p.untilStream("door", "has its camera", func(s streamStatus) bool { return s.State == "running" })
	p.untilStream("clip", "is seen", func(s streamStatus) bool { return s.Number > 0 })
	begun := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(60 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := io.ReadAll(from); err != nil {
		t.Errorf("the camera's session is cut: %v", err)
	}
}
