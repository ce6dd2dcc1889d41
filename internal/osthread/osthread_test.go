package osthread

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
)

func TestDoKeepsItsThread(t *testing.T) {
	want := errors.New("done")
	got := Do(func() error {
		tid := syscall.Gettid()
		for range 100 {
			runtime.Gosched()
			if syscall.Gettid() != tid {
				t.Error("the function moved to another thread")
			}
		}
		return want
	})
	if got != want {
		t.Errorf("Do = %v, want %v", got, want)
	}
}
