package nvml

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/nvml/nvmltest"
)

// inChild runs the test again in a process that finds the stand-in for the library, and is true in
// that process. The library is found by name, as it is on a GPU machine.
func inChild(t *testing.T, facts ...string) bool {
	t.Helper()
	if os.Getenv("FAKE_NVML") != "" {
		return true
	}
	fake := nvmltest.New(t)
	fake.Set(facts...)
	child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), fake.Env()...)
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func open(t *testing.T) *Library {
	t.Helper()
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestOpenWithoutDriver(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), "no NVIDIA driver") {
		t.Errorf("Open without a driver: %v", err)
	}
}

func TestDriverNotLoaded(t *testing.T) {
	if !inChild(t, "init 9") {
		return
	}
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), "not loaded") {
		t.Errorf("Open = %v", err)
	}
}

func TestOldDriver(t *testing.T) {
	if !inChild(t, "driver 535.104.05") {
		return
	}
	l := open(t)
	if err := l.CheckDriver(535); err != nil {
		t.Error(err)
	}
	want := "the NVIDIA driver 535.104.05 is too old, 580 or newer is wanted: update the driver"
	if err := l.CheckDriver(580); err == nil || err.Error() != want {
		t.Errorf("CheckDriver = %v, want %s", err, want)
	}
}

func TestGPUs(t *testing.T) {
	if !inChild(t, "used 1073741824", "pid "+strconv.Itoa(os.Getpid())) {
		return
	}
	l := open(t)
	gpus, err := l.GPUs()
	want := []GPU{{0, "Fake GPU", nvmltest.UUID(0), "00000000:3B:00.0"}, {1, "Fake GPU", nvmltest.UUID(1), "00000000:3C:00.0"}}
	if err != nil || !reflect.DeepEqual(gpus, want) {
		t.Fatalf("GPUs = %v, %v, want %v", gpus, err, want)
	}
	if m, err := l.Memory(gpus[1]); err != nil || m != (Memory{Free: 15 << 30, Total: 16 << 30}) {
		t.Errorf("Memory = %v, %v", m, err)
	}
	holders, err := l.Holders(gpus[0])
	if err != nil || len(holders) != 1 || holders[0].PID != os.Getppid() || holders[0].Bytes != 1<<30 || holders[0].Name == "" {
		t.Fatalf("Holders = %+v, %v: want the parent of this process alone", holders, err)
	}
	if text := holders[0].String(); !strings.HasSuffix(text, ") 1024 MiB") {
		t.Errorf("a holder prints as %q", text)
	}
}

func TestSample(t *testing.T) {
	if !inChild(t, "temperature 71", "ecc 3", "retired 1", "remap 1") {
		return
	}
	l := open(t)
	gpus, err := l.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Sample(gpus[0])
	// What the GPU does not support (utilisation) or the driver lacks (clocks) is left out.
	want := []Reading{
		{"DCGM_FI_DEV_GPU_TEMP", 71}, {"DCGM_FI_DEV_POWER_USAGE", 123.456},
		{"DCGM_FI_DEV_FB_FREE", 16384}, {"DCGM_FI_DEV_FB_USED", 0},
		{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3}, {"DCGM_FI_DEV_RETIRED_PENDING", 1},
		{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 2}, {"DCGM_FI_DEV_ROW_REMAP_PENDING", 1}, {"DCGM_FI_DEV_ROW_REMAP_FAILURE", 0},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Sample = %v, %v, want %v", got, err, want)
	}
}

func TestLostGPU(t *testing.T) {
	if !inChild(t, "lost 2") {
		return
	}
	l := open(t)
	gpus, err := l.GPUs()
	if err != nil || len(gpus) != 1 {
		t.Fatalf("GPUs = %v, %v, want the one that answers", gpus, err)
	}
	gone := GPU{Index: 1, Name: "Fake GPU", UUID: nvmltest.UUID(1)}
	for what, call := range map[string]func() error{
		"Sample":  func() error { _, err := l.Sample(gone); return err },
		"Memory":  func() error { _, err := l.Memory(gone); return err },
		"Monitor": func() error { return l.Monitor(t.Context(), gone, time.Hour, func([]Reading) {}, func(uint64) {}) },
	} {
		if err := call(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), gone.UUID) {
			t.Errorf("%s of a lost GPU: %v", what, err)
		}
	}
}

// TestMonitor: an application's Xid is told and survived, a fatal one ends the watch.
func TestMonitor(t *testing.T) {
	for xid, fatal := range map[uint64]bool{13: false, 79: true} {
		t.Run(strconv.FormatUint(xid, 10), func(t *testing.T) { monitor(t, xid, fatal) })
	}
}

func monitor(t *testing.T, xid uint64, fatal bool) {
	if !inChild(t, "xid1 "+strconv.FormatUint(xid, 10)) {
		return
	}
	l := open(t)
	gpus, err := l.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	var told []uint64
	var last []Reading
	err = l.Monitor(ctx, gpus[1], time.Hour, func(r []Reading) {
		last = r
		if !fatal && len(told) > 0 {
			stop()
		}
	}, func(x uint64) { told = append(told, x) })
	if errors.Is(err, ErrLost) != fatal || !reflect.DeepEqual(told, []uint64{xid}) {
		t.Errorf("Xid %d: told %v, ended with %v", xid, told, err)
	}
	if len(last) == 0 || last[len(last)-1].Name != xidReading || !fatal && last[len(last)-1].Value != float64(xid) {
		t.Errorf("Xid %d: the last sample is %v", xid, last)
	}
	if !fatal && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("no sample was taken after the event")
	}
}

func TestVisible(t *testing.T) {
	all := []GPU{{Index: 0, UUID: "GPU-aa11"}, {Index: 1, UUID: "GPU-aa22"}, {Index: 2, UUID: "GPU-bb33"}}
	for _, c := range []struct {
		value string
		set   bool
		want  []int
	}{
		{"", false, []int{0, 1, 2}},
		{"", true, nil},
		{"-1", true, nil},
		{"2,0", true, []int{2, 0}},
		{"0, 1", true, []int{0, 1}},
		{"1,7,0", true, []int{1}},      // nothing after a wrong entry
		{"1,0,1,2", true, []int{1, 0}}, // nor after a second mention
		{"GPU-bb,GPU-aa2", true, []int{2, 1}},
		{"GPU-aa", true, nil}, // ambiguous
		{"MIG-1", true, nil},
		{"b", true, nil},
	} {
		var got []int
		for _, g := range Visible(all, c.value, c.set) {
			got = append(got, g.Index)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q (set %v): %v, want %v", c.value, c.set, got, c.want)
		}
	}
}
