package live

import "testing"

// TestHoldIsGivenBackOnce: a hold takes what it is set to, within the share of its owner, and gives it back once.
func TestHoldIsGivenBackOnce(t *testing.T) {
	m := newMemoryBudget(64 << 20)
	a, b := m.Hold("a"), m.Hold("b")
	if err := a.Set(49<<20, "it"); err == nil || err.Error() != "it takes 49 MiB of memory, and 48 are left of the 48 MiB that --video-memory has for the streams of a key now" {
		t.Error(err)
	}
	for _, n := range []int64{48 << 20, 8 << 20, 40 << 20} {
		if err := a.Set(n, "it"); err != nil || a.Size() != n || m.Held() != n {
			t.Errorf("%d of %d: %v", m.Held(), n, err)
		}
	}
	waited := make(chan error)
	go func() { waited <- b.Await(40<<20, "it", nil) }()
	a.End()
	a.End()
	if err := <-waited; err != nil || m.Held() != 40<<20 {
		t.Errorf("%d are held: %v", m.Held(), err)
	}
	b.Keep(64 << 20)
	if b.End(); m.Held() != 0 {
		t.Errorf("%d are held at the end", m.Held())
	}
}

// TestLargeFramesDoNotWait: of frames of a source that wait for the network there are fewer the larger they are, and two at least.
func TestLargeFramesDoNotWait(t *testing.T) {
	for bytes, want := range map[int64]int{9 << 10: 1 << 10, 3 << 20: 21, 50 << 20: 2, 1 << 40: 2} {
		n := 0
		for n < 1<<10 && mayWait(n+1, bytes) {
			n++
		}
		if n != want {
			t.Errorf("%d frames of %d bytes may wait, want %d", n, bytes, want)
		}
	}
}
