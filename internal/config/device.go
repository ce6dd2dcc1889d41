package config

import (
	"slices"
	"strconv"
	"strings"
)

// Devices are the devices of the executors, each as --device of one names it: cpu, null, or cuda:0.
// It is nil when --device is none of those.
func (c *Config) Devices() []string {
	switch c.Device {
	case "cpu", "null":
		return []string{c.Device}
	case "cuda":
		return []string{"cuda:0"}
	}
	list, ok := strings.CutPrefix(c.Device, "cuda:")
	if !ok {
		return nil
	}
	var devices []string
	for index := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(index, 10, 8)
		if device := "cuda:" + strconv.FormatUint(n, 10); err == nil && !slices.Contains(devices, device) {
			devices = append(devices, device)
		} else {
			return nil
		}
	}
	return devices
}
