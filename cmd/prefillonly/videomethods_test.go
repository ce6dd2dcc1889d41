package main

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/video"
)

// TestCameraMethods streams a drawn street by each method that cameras have, and holds that each frame has its final result, that as many
// frames were looked at as the method sends, and that what is found is what the detector finds in the clip.
func TestCameraMethods(t *testing.T) {
	clip := drawStreet(t, clipRate, video.Drawing{Seed: 1, Frames: 30, Step: time.Second / clipRate})
	s := clip.serve(t)
	for name, c := range map[string]struct {
		method string
		seen   [2]int  // frames that have a result of a network, at least and at most
		f1     float64 // over all frames, at least
	}{
		"mpeg":     {"mpeg:frames=5,qp=26", [2]int{30, 30}, 0.9},
		"dds":      {"dds:frames=5,low=36,high=24,objectness=0.2,sure=0.6", [2]int{30, 30}, 0.8},
		"awstream": {"awstream:frames=5,profile=40/0.6/1/10000/0.6+26/1/0/100000/0.95", [2]int{15, 30}, 0.5},
		"eaar":     {"eaar:frames=5,qp=24,low=40", [2]int{30, 30}, 0.6},
		"accmpeg":  {"accmpeg:frames=5,qp=24", [2]int{30, 30}, 0.8},
		"vigil":    {"vigil:frames=5,qp=24", [2]int{1, 30}, 0.8},
		"glimpse":  {"glimpse:frames=5,qp=24,threshold=0.02", [2]int{30, 30}, 0.8},
		"reducto":  {"reducto:frames=5,threshold=0.05,qp=24", [2]int{1, 30}, 0.5},
		"filter":   {"oneadapt:frames=5,knobs=filter,preset=repo", [2]int{6, 30}, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			s.add(name, c.method)
			end := s.film(s.base, name, "--realtime=false", "--detector", clip.detector).ends()
			if end.Done != end.Segments || end.Sessions != 1 || end.Dropped != 0 || (end.HighBytes > 0) != (name == "dds") {
				t.Errorf("the camera did %+v", end)
			}
			seen, f1, dropped := s.score(name, s.follow(name, finals(len(clip.truth))))
			if seen < c.seen[0] || seen > c.seen[1] || f1 < c.f1 {
				t.Errorf("%d frames were seen, want %v; F1 %.3f, want %.2f; others not: %v", seen, c.seen, f1, c.f1, dropped)
			}
			t.Logf("%d frames seen, F1 %.3f, others not: %v", seen, f1, dropped)
		})
	}
}

// TestCameraAdapts: gradients of the pool's network come to the camera, and its segments take fewer bytes by them; every frame has its result all the same.
func TestCameraAdapts(t *testing.T) {
	clip := drawStreet(t, clipRate, video.Drawing{Seed: 1, Frames: 30, Step: time.Second / clipRate})
	s := clip.serve(t)
	for name, method := range map[string]string{
		"blocks": "oneadapt:frames=5,preset=repo,share=0.1",
		"codec":  "oneadapt:frames=5,knobs=codec,preset=tuned,lambda=10",
	} {
		t.Run(name, func(t *testing.T) {
			s.add(name, method)
			c := s.film(s.base, name, "--loop")
			for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				first, last := 0, 0
				for _, e := range c.events() {
					if e.Event == "segment" {
						if last = e.LowBytes; first == 0 {
							first = last
						}
					}
				}
				if first > 0 && last < first*3/4 {
					break
				}
				if time.Now().After(until) {
					t.Fatalf("after a minute a segment takes %d bytes, the first took %d", last, first)
				}
			}
			c.signal(syscall.SIGTERM)
			end := c.ends()
			if end.Done != end.Segments || end.Sessions != 1 || end.Processor["try_s"] == 0 {
				t.Errorf("the camera did %+v", end)
			}
			seen := map[string]bool{}
			for _, r := range s.follow(name, finals(end.Frames)) {
				if at := fmt.Sprint(r.Segment, r.Frame); r.Final && seen[at] {
					t.Errorf("frame %s has two final results", at)
				} else if r.Final {
					seen[at] = true
				}
			}
			if len(seen) != end.Frames {
				t.Errorf("%d frames have final results, of %d", len(seen), end.Frames)
			}
		})
	}
}
