//go:build cuda

package driver

import (
	"fmt"

	"gorgonia.org/cu"
)

// BusIDs lists the GPUs that CUDA shows this process by their places on the PCI bus
// (domain:bus:device.function), in the order of Open's index.
func BusIDs() ([]string, error) {
	count, err := cu.NumDevices()
	if err != nil {
		return nil, errNoDevice(err)
	}
	ids := make([]string, count)
	for i := range ids {
		device, err := cu.GetDevice(i)
		if err != nil {
			return nil, fmt.Errorf("cuda:%d: %w", i, err)
		}
		var place [3]int
		for j, what := range []cu.DeviceAttribute{cu.PciDomainID, cu.PciBusID, cu.PciDeviceID} {
			if place[j], err = device.Attribute(what); err != nil {
				return nil, fmt.Errorf("cuda:%d: %w", i, err)
			}
		}
		ids[i] = fmt.Sprintf("%08X:%02X:%02X.0", place[0], place[1], place[2])
	}
	return ids, nil
}

func errNoDevice(err error) error {
	return fmt.Errorf("%w: the NVIDIA driver is missing or shows no GPU (%w); install driver 580 or newer and see what nvidia-smi says, or serve with --device cpu", ErrNoDevice, err)
}
