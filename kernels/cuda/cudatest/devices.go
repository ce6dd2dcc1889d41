package cudatest

import "fmt"

// Device is a GPU as its data sheet and cudaGetDeviceProperties describe it.
type Device struct {
	Name                                string
	Capability                          int // 900 is 9.0
	processors, threads, blocks, shared int // threads and blocks of a processor, and shared memory of a block
	memory                              int64
	clock, memoryClock, bus, l2         int // kHz, kHz, bits, bytes
}

// Devices are those that plans are compiled for without a GPU.
var Devices = []Device{
	{"NVIDIA A100-SXM4-80GB", 800, 108, 2048, 32, 166912, 80 << 30, 1410000, 1593000, 5120, 40 << 20},
	{"NVIDIA L4", 890, 58, 1536, 24, 101376, 22 << 30, 2040000, 6251000, 192, 48 << 20},
	{"NVIDIA H100 80GB HBM3", 900, 132, 2048, 32, 232448, 80 << 30, 1980000, 2619000, 5120, 50 << 20},
}

// Properties are what cuDNN wants to know of a device that is not there.
func (d Device) Properties() string {
	return fmt.Sprintf(`{"deviceName":%q,"cudaDeviceId":0,"pciDeviceId":0,"deviceVer":%d,"driverVer":13000,`+
		`"multiProcessorCount":%d,"maxThreadsPerSM":%d,"maxCtasPerSM":%d,"maxThreadsPerBlock":1024,"warpSize":32,`+
		`"maxBlockSize":[1024,1024,64],"maxGridSize":[2147483647,65535,65535],"regsPerBlock":65536,"maxRegistersPerSM":65536,`+
		`"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":%d,"reservedSharedMemoryPerBlock":1024,"totalGlobalMem":%d,`+
		`"smClockRateKHz":%d,"memClockRateKHz":%d,"memoryBusWidth":%d,"l2CacheSize":%d,"isTccDriver":0,"supportCoopLaunch":1}`,
		d.Name, d.Capability, d.processors, d.threads, d.blocks, d.shared, d.memory, d.clock, d.memoryClock, d.bus, d.l2)
}
