package httpserve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHalfSentDrain: no request that is half sent, connection without one or answer that nobody reads stretches
// a drain, and none makes it fail.
func TestHalfSentDrain(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{DrainTimeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = w.Write(make([]byte, 64<<20))
		}
	})
	s.dial("")
	s.dial("GET / HTTP/1.1\r\nHo")
	s.dial(request("POST", 10) + "abc")
	s.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s.eventually("all are open", func() bool { return s.Connections().Open == 4 && s.InFlight() == 2 })
	begun := time.Now()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*prompt {
		t.Errorf("the drain took %v", took)
	}
}

// TestGrace: while a server drains, connections are accepted for a time, and then refused; a request that was
// there before gets its answer.
func TestGrace(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var s *served
	s = serve(t, Config{DrainTimeout: time.Minute, DrainGrace: 500 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if s.Draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		<-release
	})
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	open := s.dial(get)
	s.eventually("a request is in flight", func() bool { return s.InFlight() == 1 })
	s.stop()
	s.eventually("it drains", s.Draining)
	if text, _ := s.read(s.dial(get)); !strings.HasPrefix(text, "HTTP/1.1 503") || !strings.Contains(text, "Connection: close") {
		t.Errorf("a new connection got %q", text)
	}
	s.eventually("connections are refused", func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(release)
	if text, _ := s.read(open); !strings.HasPrefix(text, "HTTP/1.1 200") {
		t.Errorf("the open request got %q", text)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// TestCutOff: requests that outlast a drain can say so, half-closed ones too, and are counted.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{DrainTimeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		if errors.Is(context.Cause(r.Context()), ErrDraining) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var open []*net.TCPConn
	for range 2 {
		open = append(open, s.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	}
	if err := open[1].CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.eventually("two requests are in flight", func() bool { return s.InFlight() == 2 })
	s.stop()
	for _, c := range open {
		r := bufio.NewReader(c)
		response, err := http.ReadResponse(r, nil)
		if err == nil && response.StatusCode == http.StatusContinue {
			response, err = http.ReadResponse(r, nil)
		}
		if err != nil || response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("answer %v, %v", response, err)
		}
	}
	if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "2 requests were still open after 50ms") {
		t.Errorf("Serve returned %v", err)
	}
}
