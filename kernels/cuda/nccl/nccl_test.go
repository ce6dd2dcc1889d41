package nccl_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
	"github.com/prefillonly/prefillonly/kernels/cuda/nccl"
)

func TestOpenNamesWhatToInstall(t *testing.T) {
	_, err := nccl.Open("/nowhere/libnccl.so.2")
	for _, want := range []string{"/nowhere/libnccl.so.2", "libnccl2", "nvidia-nccl-cu13"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
	}
	if _, err := nccl.Open("libc.so.6"); err == nil || !strings.Contains(err.Error(), "it has no ncclGetVersion") {
		t.Errorf("a library that is not NCCL: error %v", err)
	}
}

func join(t *testing.T, ranks int) []*nccl.Comm {
	t.Helper()
	l, err := nccl.Open(cudatest.BuildNCCL(t))
	if err != nil {
		t.Fatal(err)
	}
	devices := make([]int, ranks)
	for i := range devices {
		devices[i] = i
	}
	comms, err := l.Join(devices)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range comms {
			if err := c.Abort(); err != nil {
				t.Error(err)
			}
		}
	})
	return comms
}

func TestLibrary(t *testing.T) {
	l, err := nccl.Open(cudatest.BuildNCCL(t))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := l.Version(); err != nil || v != 22803 {
		t.Errorf("version %d, %v", v, err)
	}
	if _, err := l.Join([]int{3, 3}); err == nil || !strings.Contains(err.Error(), "join GPUs [3 3]: invalid usage (5)") {
		t.Errorf("one GPU twice: error %v", err)
	}
}

// gather calls AllGather of every rank but those left out, and returns the errors and what each rank has.
func gather(comms []*nccl.Comm, without ...int) ([]error, [][]float32) {
	const count = 1000
	errs, got := make([]error, len(comms)), make([][]float32, len(comms))
	address := func(v []float32) uint64 { return uint64(uintptr(unsafe.Pointer(&v[0]))) }
	var wg sync.WaitGroup
	for rank, c := range comms {
		if slices.Contains(without, rank) {
			continue
		}
		send := make([]float32, count)
		for i := range send {
			send[i] = float32(rank*count + i)
		}
		got[rank] = make([]float32, count*len(comms))
		wg.Go(func() {
			errs[rank] = c.AllGather(address(got[rank]), address(send), 4*count)
		})
	}
	wg.Wait()
	return errs, got
}

func TestAllGather(t *testing.T) {
	comms := join(t, 3)
	for range 20 {
		errs, got := gather(comms)
		for rank := range comms {
			if errs[rank] != nil || comms[rank].Err() != nil {
				t.Fatal(errs[rank], comms[rank].Err())
			}
			for i, v := range got[rank] {
				if v != float32(i) {
					t.Fatalf("element %d of rank %d is %g", i, rank, v)
				}
			}
		}
	}
}

// TestAbort: ranks that wait for one that has failed return when the group is aborted.
func TestAbort(t *testing.T) {
	for _, failure := range []string{"gather:1:2", "async:2:2"} {
		t.Run(failure, func(t *testing.T) {
			t.Setenv("FAKE_NCCL", failure)
			comms := join(t, 3)
			for range 2 {
				if errs, _ := gather(comms); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
					t.Fatal(errs)
				}
			}
			time.AfterFunc(100*time.Millisecond, func() {
				if state := comms[0].Err(); fmt.Sprint(state) != "<nil>" != strings.HasPrefix(failure, "async") {
					t.Errorf("the state is %v", state)
				}
				for _, c := range comms {
					if err := c.Abort(); err != nil {
						t.Error(err)
					}
				}
			})
			errs, _ := gather(comms)
			for rank, err := range errs {
				if err == nil {
					t.Errorf("rank %d has gathered what a failed rank never gave", rank)
				}
			}
		})
	}
}
