package config

import (
	"slices"
	"strconv"
	"strings"
)

// Devices are the devices of the executors, each as --device of one names it: cpu, null, cuda:0 or
// cuda:GPU-8932f937-... for a UUID, or cuda:0,1 where two GPUs share a model. It is nil when --device is none of those, or when the GPUs
// cannot be divided so.
func (c *Config) Devices() []string {
	if c.Device == "cpu" || c.Device == "null" {
		return []string{c.Device}
	}
	gpus := c.GPUs()
	if len(gpus) == 0 || len(gpus)%c.Ranks != 0 {
		return nil
	}
	var devices []string
	for group := range slices.Chunk(gpus, c.Ranks) {
		devices = append(devices, "cuda:"+strings.Join(group, ","))
	}
	return devices
}

// GPUs are the numbers or UUIDs of the GPUs that --device names; cuda alone is as many as share a model,
// from the first on. It is nil when --device names none, or one twice.
func (c *Config) GPUs() []string { return gpusOf(c.Device, c.Ranks) }

func gpusOf(device string, ranks int) []string {
	var gpus []string
	if device == "cuda" {
		for n := range ranks {
			gpus = append(gpus, strconv.Itoa(n))
		}
		return gpus
	}
	list, ok := strings.CutPrefix(device, "cuda:")
	if !ok {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if n, err := strconv.ParseUint(name, 10, 8); err == nil {
			name = strconv.FormatUint(n, 10)
		} else if !isUUID(name) {
			return nil
		}
		if slices.Contains(gpus, name) {
			return nil
		}
		gpus = append(gpus, name)
	}
	return gpus
}

// isDevice says that a text is a value of --device.
func isDevice(text string, ranks int) bool {
	return slices.Contains([]string{"cpu", "null"}, text) || len(gpusOf(text, ranks)) > 0
}

// isUUID says that name has the form of a GPU's UUID.
func isUUID(name string) bool {
	digits, ok := strings.CutPrefix(name, "GPU-")
	return ok && digits != "" && strings.Trim(digits, "0123456789abcdefABCDEF-") == ""
}
