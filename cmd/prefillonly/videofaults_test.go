package main

import (
	"bytes"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/video"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// twoStreams is DDS with settings that have a drawn street looked at twice.
const twoStreams = "dds:low=38,high=24,frames=5,objectness=0.1,sure=0.8,patience=2s"

// TestVideoFaults: whatever fails between a camera and its server, each frame has one final result, of that very frame, and the stream goes on.
// The frames of the clip have little in common, so that a result of another frame is seen.
func TestVideoFaults(t *testing.T) {
	clip := drawStreet(t, clipRate, video.Drawing{Seed: 1, Frames: 60, Step: 1700 * time.Millisecond})
	for name, f := range map[string]struct {
		method string
		run    func(s *streetServer)
	}{
		"outage":     {"mpeg:frames=5,qp=24,backlog=20s", outage},
		"killed":     {"mpeg:frames=5,qp=24", func(s *streetServer) { s.killCamera() }},
		"killed dds": {twoStreams, func(s *streetServer) { s.killCamera() }},
		"replaced":   {"mpeg:frames=5,qp=24", replaceCameras},
		"vanishes":   {"mpeg:frames=5,qp=24", vanish},
		"cut":        {"mpeg:frames=5,qp=24", cutTwice},
		"processes":  {"mpeg:frames=5,qp=24,backlog=20s", killProcesses},
		"server":     {"mpeg:frames=5,qp=24,backlog=20s", killServer},
		"corrupt B":  {twoStreams, corruptHigh},
		"corrupt":    {"mpeg:frames=5,qp=24", corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			s := clip.serve(t)
			s.add("street", f.method)
			f.run(s)
		})
	}
}

// outage: the link carries nothing for 5 s.
func outage(s *streetServer) {
	began := time.Now()
	end := s.film(s.base, "street", "--realtime=false", "--bandwidth", "0s:2Mbit,1s:0,6s:4Mbit", "--rtt", "20ms").ends()
	if took := time.Since(began); took < 6*time.Second || end.Sessions != 1 {
		s.Errorf("after %v the camera did %+v", took, end)
	}
	s.all("street")
}

// killCamera kills a camera in mid-stream; another one streams all of the clip.
func (s *streetServer) killCamera() {
	first := s.film(s.base, "street", "--loop")
	s.follow("street", finals(10))
	first.signal(syscall.SIGKILL)
	<-first.done
	s.again("street", s.film(s.base, "street", "--realtime=false"))
	for line := range strings.Lines(s.logged()) {
		if !json.Valid([]byte(line)) {
			s.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}

// replaceCameras: two cameras of one stream take each other's place again and again; a third one streams all of the clip when they are gone.
func replaceCameras(s *streetServer) {
	both := []*cameraProcess{s.film(s.base, "street", "--loop"), s.film(s.base, "street", "--loop")}
	s.until("each has been replaced", func() bool {
		for _, c := range both {
			replaced := 0
			for _, e := range c.events() {
				if e.Event == "disconnected" && strings.Contains(e.Error, "another session") {
					replaced++
				}
			}
			if replaced < 3 {
				return false
			}
		}
		return true
	})
	for _, c := range both {
		c.signal(syscall.SIGKILL)
		<-c.done
	}
	s.again("street", s.film(s.base, "street", "--realtime=false"))
}

// vanish: a camera stops in mid-stream and its connection goes, and never comes back; another one takes its place.
func vanish(s *streetServer) {
	way := s.relay()
	first := s.film(way.url, "street", "--loop")
	s.follow("street", finals(10))
	first.signal(syscall.SIGSTOP)
	way.cut()
	s.again("street", s.film(s.base, "street", "--realtime=false"))
}

// cutTwice: the camera's connection is cut, twice, and it goes on by itself.
func cutTwice(s *streetServer) {
	way := s.relay()
	c := s.film(way.url, "street", slowly...)
	for _, n := range []int{10, 25} {
		s.follow("street", finals(n))
		way.cut()
	}
	if end := c.ends(); end.Sessions < 2 || end.Dropped > 0 {
		s.Errorf("the camera did %+v", end)
	}
	s.all("street")
}

// corrupt: bytes of one segment are others when they come, and its frames alone have no results.
func corrupt(s *streetServer) {
	way := s.relay()
	way.spoil(method.A, 4)
	if end := s.film(way.url, "street", "--realtime=false").ends(); end.Sessions != 1 {
		s.Errorf("the camera did %+v", end)
	}
	seen, dropped := s.check("street", s.follow("street", finals(len(s.truth))))
	spoilt := 0
	for why, n := range dropped {
		if strings.Contains(why, "checksum") {
			spoilt += n
		}
	}
	if seen != len(s.truth)-5 || spoilt != 5 {
		s.Errorf("%d frames were seen, and others not: %v", seen, dropped)
	}
}

// corruptHigh: one segment arrives spoilt on stream B, and its frames have the results of stream A.
func corruptHigh(s *streetServer) {
	way := s.relay()
	way.spoil(method.B, 2)
	end := s.film(way.url, "street", "--realtime=false").ends()
	if !strings.Contains(s.logged(), "stream B of segment") {
		s.Error("no segment was spoilt on stream B")
	}
	if end.Sessions != 1 || end.HighBytes == 0 {
		s.Errorf("the camera did %+v", end)
	}
	s.all("street")
}

// slowly is how a camera streams the clip as fast as there are results, in some seconds.
var slowly = []string{"--realtime=false", "--bandwidth", "1Mbit"}

// killProcesses kills the server's processes one after the other.
func killProcesses(s *streetServer) {
	c := s.film(s.base, "street", slowly...)
	for i, role := range []string{"video", "executor", "frontend", "scheduler"} {
		s.follow("street", finals(5+10*i))
		s.strike(role, syscall.SIGKILL)
	}
	if end := c.ends(); end.Dropped > 0 {
		s.Errorf("the camera did %+v", end)
	}
	s.all("street")
}

// killServer kills all of the server, and starts it again on what it kept.
func killServer(s *streetServer) {
	c := s.film(s.base, "street", slowly...)
	s.follow("street", finals(10))
	if err := s.cmd.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	<-s.done
	s.start()
	if end := c.ends(); end.Dropped > 0 || end.Sessions < 2 {
		s.Errorf("the camera did %+v", end)
	}
	s.all("street")
}

// relay passes on connections to a server, until they are cut.
type relay struct {
	url string

	mu   sync.Mutex
	open []net.Conn // guarded by mu
	// guarded by mu: which segment of a stream is spoilt; 0: none
	stream method.Stream
	spoilt int
}

func (s *streetServer) relay() *relay {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	r := &relay{url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	s.Cleanup(func() {
		l.Close()
		r.cut()
		all.Wait()
	})
	all.Go(func() { // ends with l
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
			if err != nil { // the camera tries again
				near.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, near, far)
			r.mu.Unlock()
			all.Go(func() { r.pass(far, near) }) // both end with either connection
			all.Go(func() { r.pass(near, far) })
		}
	})
	return r
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		c.Close()
	}
	r.open = nil
}

// spoil has the first picture of a segment arrive as another one: that which comes first on a stream is 1.
func (r *relay) spoil(stream method.Stream, segment int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream, r.spoilt = stream, segment
}

func (r *relay) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		r.flip(data[:n])
		if _, failed := to.Write(data[:n]); failed != nil || err != nil {
			return
		}
	}
}

// begun is how a message begins that has encoded frames: its kind, its checksum, the segment, the stream, and how many frames it is of.
var begun = map[method.Stream]*regexp.Regexp{
	method.A: regexp.MustCompile(`(?s)\x03.{4}[\x00-\x7f]\x00\x05`), method.B: regexp.MustCompile(`(?s)\x03.{4}[\x00-\x7f]\x01\x05`),
}

// flip flips a bit of a picture that begins a sequence, when the one that is to be spoilt is there.
func (r *relay) flip(data []byte) {
	const before, behind = 1000, 100 // the start code of the picture: of that the message begins, and there is something to flip
	r.mu.Lock()
	defer r.mu.Unlock()
	for from := 0; r.spoilt > 0; {
		at := bytes.Index(data[from:], []byte{0, 0, 1, 0x65})
		if at < 0 || from+at+behind >= len(data) {
			return
		}
		at += from
		if begun[r.stream].Match(data[max(from, at-before):at]) {
			if r.spoilt--; r.spoilt == 0 {
				data[at+behind] ^= 4
			}
		}
		from = at + behind
	}
}
