package device

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/model"
)

// mebibytes is an amount of memory in logs and errors.
type mebibytes int64

func (b mebibytes) String() string { return fmt.Sprintf("%.0f MiB", float64(b)/(1<<20)) }

// availableMemory is what this process may still use: the kernel's estimate, or what is left of the
// least limit of its cgroups when that is less.
func availableMemory() (int64, error) {
	available, err := memAvailable("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	if left, ok := cgroupLeft("/"); ok {
		available = min(available, left)
	}
	return available, nil
}

func memAvailable(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no MemAvailable", file)
}

// planPages is the number of pages of the prefix cache beside a model of that plan.
func planPages(o Options, plan model.Plan, available int64) (int, error) {
	free := available - plan.Weights - plan.Work
	cache := o.CacheBytes
	if cache == 0 {
		cache = int64(o.CacheShare * float64(free))
	}
	if free < cache || free < 0 {
		return 0, fmt.Errorf("%s are available, but the weights take %v, the working set of the longest prompt %v, and the prefix cache %v: lower --max-model-len or --kv-cache-memory-bytes, take a smaller model, or on a GPU raise --gpu-memory-utilization",
			mebibytes(available), mebibytes(plan.Weights), mebibytes(plan.Work), mebibytes(max(cache, 0)))
	}
	return int(cache / plan.Block), nil
}

// offload gives a model its pages in host memory.
func offload(o Options, m *model.Model) error {
	available, err := availableMemory()
	if err != nil {
		return err
	}
	wanted := int64(o.Offloading * (1 << 30))
	if all := wanted * int64(o.Ranks); all > available {
		return fmt.Errorf("%v of host memory are available, --kv-offloading-size takes %v: lower it", mebibytes(available), mebibytes(all))
	}
	block := m.Plan().Block * int64(o.Ranks)
	n := wanted / block
	if n < 1 {
		return fmt.Errorf("--kv-offloading-size is %v, less than a block of %v: raise it, or lower --block-size", mebibytes(wanted), mebibytes(block))
	}
	return m.NewHostPages(int(n))
}
