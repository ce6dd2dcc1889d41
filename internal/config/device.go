package config

import (
	"slices"
	"strconv"
	"strings"
)

// Devices are the devices of the executors, each as --device of one names it: cpu, null, cuda:0, or
// cuda:0,1 where two GPUs share a model. It is nil when --device is none of those, or when the GPUs
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
		var list []string
		for _, n := range group {
			list = append(list, strconv.Itoa(n))
		}
		devices = append(devices, "cuda:"+strings.Join(list, ","))
	}
	return devices
}

// GPUs are the numbers of the GPUs that --device names; cuda alone is as many as share a model, from
// the first on. It is nil when --device names none, or one twice.
func (c *Config) GPUs() []int {
	var gpus []int
	if c.Device == "cuda" {
		for n := range c.Ranks {
			gpus = append(gpus, n)
		}
		return gpus
	}
	list, ok := strings.CutPrefix(c.Device, "cuda:")
	if !ok {
		return nil
	}
	for index := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(index, 10, 8)
		if err != nil || slices.Contains(gpus, int(n)) {
			return nil
		}
		gpus = append(gpus, int(n))
	}
	return gpus
}
