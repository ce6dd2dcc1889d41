package nvml

import (
	"fmt"
	"os"
	"strings"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Library is the initialised management library. Its methods are safe for concurrent use.
type Library struct {
	api    nv.Interface
	driver string
}

// Open loads and initialises the library. Without a driver it fails and says what is missing.
func Open() (*Library, error) {
	api := nv.New()
	if ret := api.Init(); ret != nv.SUCCESS { // after which any other call would end the process
		return nil, explainInit(ret)
	}
	driver, ret := api.SystemGetDriverVersion()
	if ret != nv.SUCCESS {
		api.Shutdown()
		return nil, fmt.Errorf("NVML does not tell the driver's version: %v", ret)
	}
	return &Library{api, driver}, nil
}

func explainInit(ret nv.Return) error {
	switch ret {
	case nv.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("no NVIDIA driver: libnvidia-ml.so.1 is not found; install the driver, or give the container its libraries (NVIDIA Container Toolkit)")
	case nv.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("the NVIDIA driver is installed, but its kernel module is not loaded; see what nvidia-smi and dmesg say")
	case nv.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("the NVIDIA driver's library and kernel module are of different versions, as after an update; reboot or load the new module")
	case nv.ERROR_NO_PERMISSION:
		return fmt.Errorf("no permission to talk to the NVIDIA driver; give this user access to /dev/nvidia*")
	}
	return fmt.Errorf("NVML cannot be initialised (error %d); see what nvidia-smi says", int32(ret))
}

// Close lets go of the library.
func (l *Library) Close() { l.api.Shutdown() }

// Driver is the driver's version, e.g. "580.95.05".
func (l *Library) Driver() string { return l.driver }

// CheckDriver fails when the driver is older than the given major version.
func (l *Library) CheckDriver(oldest int) error { return checkDriver(l.driver, oldest) }

// GPUs lists all GPUs of the machine that answer, in the order of the PCI bus.
func (l *Library) GPUs() ([]GPU, error) {
	count, ret := l.api.DeviceGetCount()
	if ret != nv.SUCCESS {
		return nil, fmt.Errorf("NVML does not count the GPUs: %v", ret)
	}
	var gpus []GPU
	for i := range count {
		device, ret := l.api.DeviceGetHandleByIndex(i)
		if ret != nv.SUCCESS { // lost, or not this process's
			continue
		}
		g := GPU{Index: i}
		if g.UUID, ret = device.GetUUID(); ret != nv.SUCCESS {
			continue
		}
		if g.Name, ret = device.GetName(); ret != nv.SUCCESS {
			continue
		}
		pci, ret := device.GetPciInfo()
		if ret != nv.SUCCESS {
			continue
		}
		g.BusID = fmt.Sprintf("%08X:%02X:%02X.0", pci.Domain, pci.Bus, pci.Device)
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// findDevice finds a GPU anew, since indexes move when one disappears.
func (l *Library) findDevice(g GPU) (nv.Device, error) {
	device, ret := l.api.DeviceGetHandleByUUID(g.UUID)
	if ret != nv.SUCCESS {
		return nil, gpuError(g, "is not found", ret)
	}
	return device, nil
}

// gpuError is the error of a call about a GPU.
func gpuError(g GPU, what string, ret nv.Return) error {
	if ret == nv.ERROR_GPU_IS_LOST || ret == nv.ERROR_GPU_NOT_FOUND {
		return fmt.Errorf("%w: %s (%s) %s: %v", ErrLost, g.Name, g.UUID, what, ret)
	}
	return fmt.Errorf("%s (%s) %s: %v", g.Name, g.UUID, what, ret)
}

// Memory is the GPU's memory, whoever holds it.
func (l *Library) Memory(g GPU) (Memory, error) {
	device, err := l.findDevice(g)
	if err != nil {
		return Memory{}, err
	}
	m, ret := device.GetMemoryInfo()
	if ret != nv.SUCCESS {
		return Memory{}, gpuError(g, "does not tell its memory", ret)
	}
	return Memory{Free: int64(m.Free), Total: int64(m.Total)}, nil
}

// Holders are the processes other than this one that compute on the GPU.
func (l *Library) Holders(g GPU) ([]Holder, error) {
	device, err := l.findDevice(g)
	if err != nil {
		return nil, err
	}
	list, ret := device.GetComputeRunningProcesses()
	if ret != nv.SUCCESS {
		return nil, gpuError(g, "does not tell its processes", ret)
	}
	var holders []Holder
	for _, p := range list {
		if int(p.Pid) == os.Getpid() {
			continue
		}
		h := Holder{PID: int(p.Pid), Bytes: int64(p.UsedGpuMemory)} // unknown is all ones
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err == nil {
			h.Name = strings.TrimSpace(string(name))
		}
		holders = append(holders, h)
	}
	return holders, nil
}
