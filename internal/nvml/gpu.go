// Package nvml reads what NVIDIA's management library knows of this machine's GPUs: which there are,
// who holds their memory, how they are, and when one fails. The library is found at run time.
package nvml

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// GPU is one GPU of this machine.
type GPU struct {
	Index int    // NVML's: in the order of the PCI bus
	Name  string // e.g. "NVIDIA H200"
	UUID  string // e.g. "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"; stays when others disappear
	BusID string // domain:bus:device.function, e.g. "00000000:3B:00.0"
}

// Memory is a GPU's memory in bytes.
type Memory struct{ Free, Total int64 }

// Holder is a process that has memory of a GPU.
type Holder struct {
	PID   int
	Name  string // empty where it is not visible, as from inside a container
	Bytes int64  // -1 where the driver does not tell
}

func (h Holder) String() string {
	s := fmt.Sprintf("pid %d", h.PID)
	if h.Name != "" {
		s += " (" + h.Name + ")"
	}
	if h.Bytes >= 0 {
		s += fmt.Sprintf(" %d MiB", h.Bytes>>20)
	}
	return s
}

// Reading is one figure about a GPU, under the name that NVIDIA's DCGM exporter has for it.
type Reading struct {
	Name  string
	Value float64
}

// ErrLost is wrapped by the errors that say that a GPU computes no more: it fell off the bus, or
// reported a failure after which the driver refuses work until it is reset.
var ErrLost = errors.New("the GPU is lost")

// Visible picks the GPUs that CUDA shows a process with this value of CUDA_VISIBLE_DEVICES: indexes
// and beginnings of UUIDs, in their order, up to the first that names no GPU (CUDA C++ Programming
// Guide, section Environment Variables) or names one again. set says whether the variable is set at
// all. Indexes mean the order of the PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
func Visible(all []GPU, value string, set bool) []GPU {
	if !set {
		return all
	}
	var visible []GPU
	seen := map[string]bool{}
	for name := range strings.SplitSeq(value, ",") {
		g, ok := findGPU(all, strings.TrimSpace(name))
		if !ok || seen[g.UUID] {
			break
		}
		seen[g.UUID] = true
		visible = append(visible, g)
	}
	return visible
}

// findGPU looks a GPU up by its index or the unambiguous beginning of its UUID.
func findGPU(all []GPU, name string) (GPU, bool) {
	if index, err := strconv.Atoi(name); err == nil {
		for _, g := range all {
			if g.Index == index {
				return g, true
			}
		}
		return GPU{}, false
	}
	var found []GPU
	for _, g := range all {
		if strings.HasPrefix(name, "GPU-") && strings.HasPrefix(g.UUID, name) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		return GPU{}, false
	}
	return found[0], true
}

// checkDriver compares the driver's version with the oldest major version that will do.
func checkDriver(version string, oldest int) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("the NVIDIA driver %s is too old, %d or newer is wanted: update the driver", version, oldest)
	}
	return nil
}

// fatalXids are the errors of NVIDIA's Xid catalogue after which a GPU must be reset, whichever
// process caused them; CUDA itself reports the others to the process they concern.
// https://docs.nvidia.com/deploy/xid-errors
var fatalXids = map[uint64]string{
	48:  "double-bit ECC error",
	62:  "internal micro-controller halt",
	79:  "fell off the bus",
	95:  "uncontained memory error",
	119: "GSP does not answer",
	120: "GSP error",
	140: "unrecovered ECC error",
}
