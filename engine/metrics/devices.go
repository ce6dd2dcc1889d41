package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefillonly/prefillonly/engine/client"
)

// deviceMetrics are the figures of GPUs that are published, under the names, units and types that
// NVIDIA's DCGM exporter has for them.
var deviceMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
}{
	{"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", prometheus.GaugeValue},
	{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Why the clocks are lowered, as NVML's bit mask.", prometheus.GaugeValue},
	{"DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", prometheus.GaugeValue},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Double-bit volatile ECC errors.", prometheus.CounterValue},
	{"DCGM_FI_DEV_RETIRED_PENDING", "Whether pages are pending retirement.", prometheus.GaugeValue},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped for uncorrectable errors.", prometheus.CounterValue},
	{"DCGM_FI_DEV_ROW_REMAP_PENDING", "Whether rows are pending remapping.", prometheus.GaugeValue},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed.", prometheus.GaugeValue},
}

// deviceCollector publishes what executors last said of their GPUs.
type deviceCollector struct {
	pool  *client.Client
	descs map[string]*prometheus.Desc
	kinds map[string]prometheus.ValueType
}

func newDeviceCollector(pool *client.Client) *deviceCollector {
	d := &deviceCollector{pool, map[string]*prometheus.Desc{}, map[string]prometheus.ValueType{}}
	for _, m := range deviceMetrics {
		d.descs[m.name] = prometheus.NewDesc(m.name, m.help, []string{"UUID", "modelName", "executor"}, nil)
		d.kinds[m.name] = m.kind
	}
	return d
}

// Describe implements prometheus.Collector.
func (d *deviceCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range deviceMetrics {
		out <- d.descs[m.name]
	}
}

// Collect implements prometheus.Collector. Readings of names unknown here are passed over.
func (d *deviceCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range d.pool.State().Executors {
		seen := map[string]bool{} // a second value would fail the whole page
		for _, r := range s.Readings {
			if desc := d.descs[r.Name]; desc != nil && s.UUID != "" && !seen[r.Name] {
				seen[r.Name] = true
				out <- prometheus.MustNewConstMetric(desc, d.kinds[r.Name], r.Value, s.UUID, s.GPU, s.Name)
			}
		}
	}
}
