package device

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/nvml"
)

// oldestDriver is the first that loads what CUDA 13 compiles.
const oldestDriver = 580

// gpuManagement is NVIDIA's management library, opened once and for the life of the process.
var gpuManagement = sync.OnceValues(nvml.Open)

// NameGPUs is o.Device with its GPUs replaced by their UUIDs, which stay when a GPU disappears and the
// others are counted anew. cuda stands for every GPU if all is set, and else for as many as share a
// model. Without the management library, or where CUDA_VISIBLE_DEVICES names parts of GPUs, it
// is o.Device as it is.
func NameGPUs(o Options, all bool) (device string, err error) {
	if !strings.HasPrefix(o.Device, "cuda") {
		return o.Device, nil
	}
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	library, err := gpuManagement()
	if err != nil || strings.Contains(visible, "MIG-") {
		if err != nil {
			o.Log.Warn("GPUs are not watched", zap.Error(err))
		}
		return o.Device, nil
	}
	if err := library.CheckDriver(oldestDriver); err != nil {
		return "", &Error{Device, err}
	}
	answering, err := library.GPUs()
	if err != nil {
		return "", &Error{Device, err}
	}
	gpus := nvml.Visible(answering, visible, set)
	if len(gpus) == 0 {
		return "", &Error{Device, fmt.Errorf("no GPU: %d answer, of which CUDA_VISIBLE_DEVICES=%q leaves none; see what nvidia-smi says, or serve with --device cpu", len(answering), visible)}
	}
	chosen := gpus
	if o.Device != "cuda" || !all {
		if chosen, err = chooseGPUs(o.GPUs, gpus); err != nil {
			return "", &Error{Device, err}
		}
	}
	if len(chosen)%o.Ranks != 0 {
		return "", &Error{Device, fmt.Errorf("--tensor-parallel-size %d does not divide the GPUs: there %s", o.Ranks, describeGPUs(chosen))}
	}
	var names []string
	for _, g := range chosen {
		names = append(names, g.UUID)
	}
	return "cuda:" + strings.Join(names, ","), nil
}

// chooseGPUs picks those that names are the numbers or UUIDs of.
func chooseGPUs(names []string, gpus []nvml.GPU) ([]nvml.GPU, error) {
	var chosen []nvml.GPU
	for _, name := range names {
		at := slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID == name })
		if n, err := strconv.Atoi(name); err == nil && n < len(gpus) {
			at = n
		}
		if at < 0 {
			return nil, fmt.Errorf("cuda:%s is wanted, but there %s", name, describeGPUs(gpus))
		}
		if slices.Contains(chosen, gpus[at]) {
			return nil, fmt.Errorf("cuda:%s names a GPU that is named before", name)
		}
		chosen = append(chosen, gpus[at])
	}
	return chosen, nil
}

// describeGPUs ends the sentence "there ...".
func describeGPUs(gpus []nvml.GPU) string {
	verb := "are"
	if len(gpus) == 1 {
		verb = "is"
	}
	list := make([]string, len(gpus))
	for i, g := range gpus {
		list[i] = fmt.Sprintf("cuda:%d (%s, %s)", i, g.Name, g.UUID)
	}
	return verb + " " + strings.Join(list, ", ")
}

// OwnGPUs are the GPUs of an executor whose Device NameGPUs has treated, and the library that knows
// them; none where one of them is unknown.
func OwnGPUs(o Options) (*nvml.Library, []nvml.GPU) {
	library, err := gpuManagement()
	if err != nil || !strings.HasPrefix(o.Device, "cuda:GPU-") {
		return nil, nil
	}
	gpus, err := library.GPUs()
	if err != nil {
		return nil, nil
	}
	own, err := chooseGPUs(o.GPUs, gpus)
	if err != nil {
		return nil, nil
	}
	return library, own
}

// cudaIndices are CUDA's numbers of an executor's GPUs, as many as share a model.
func cudaIndices(o Options) ([]int, error) {
	names := o.GPUs
	if len(names) != o.Ranks {
		return nil, &Error{Configuration, fmt.Errorf("an executor of --tensor-parallel-size %d has as many GPUs, not %q; `prefillonly serve` starts one for each share", o.Ranks, o.Device)}
	}
	var indices []int
	for _, name := range names {
		if index, err := strconv.Atoi(name); err == nil {
			indices = append(indices, index)
		}
	}
	if len(indices) == len(names) {
		return indices, nil
	}
	_, gpus := OwnGPUs(o)
	if len(gpus) == 0 {
		return nil, &Error{Device, fmt.Errorf("--device %s names GPUs that NVIDIA's management library does not show", o.Device)}
	}
	ids, err := o.Access.BusIDs()
	if err != nil {
		return nil, &Error{Device, err}
	}
	indices = nil
	for _, gpu := range gpus {
		i := slices.Index(ids, gpu.BusID)
		if i < 0 {
			return nil, &Error{Device, fmt.Errorf("%s (%s) at %s is not among the GPUs that CUDA shows: %s; see CUDA_VISIBLE_DEVICES", gpu.Name, gpu.UUID, gpu.BusID, strings.Join(ids, ", "))}
		}
		indices = append(indices, i)
	}
	return indices, nil
}

// memoryHolders ends a sentence about a GPU's memory with the other processes that have some of it.
func memoryHolders(o Options) string {
	library, gpus := OwnGPUs(o)
	var names []string
	for _, gpu := range gpus {
		list, err := library.Holders(gpu)
		if err != nil {
			return ""
		}
		for _, h := range list {
			names = append(names, h.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; other processes hold memory of it: " + strings.Join(names, ", ")
}
