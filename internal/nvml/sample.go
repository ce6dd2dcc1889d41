package nvml

import (
	nv "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// sources are the readings of a sample: the function of the library that gives each, which an older
// driver may lack, and the call.
var sources = []struct {
	symbol string
	read   func(d nv.Device) ([]Reading, nv.Return)
}{
	{"nvmlDeviceGetTemperature", func(d nv.Device) ([]Reading, nv.Return) {
		v, ret := d.GetTemperature(nv.TEMPERATURE_GPU)
		return singleReading("DCGM_FI_DEV_GPU_TEMP", float64(v)), ret
	}},
	{"nvmlDeviceGetPowerUsage", func(d nv.Device) ([]Reading, nv.Return) {
		milliwatts, ret := d.GetPowerUsage()
		return singleReading("DCGM_FI_DEV_POWER_USAGE", float64(milliwatts)/1000), ret
	}},
	{"nvmlDeviceGetClockInfo", func(d nv.Device) ([]Reading, nv.Return) {
		v, ret := d.GetClockInfo(nv.CLOCK_SM)
		return singleReading("DCGM_FI_DEV_SM_CLOCK", float64(v)), ret
	}},
	{"nvmlDeviceGetUtilizationRates", func(d nv.Device) ([]Reading, nv.Return) {
		v, ret := d.GetUtilizationRates()
		return []Reading{{"DCGM_FI_DEV_GPU_UTIL", float64(v.Gpu)}, {"DCGM_FI_DEV_MEM_COPY_UTIL", float64(v.Memory)}}, ret
	}},
	{"nvmlDeviceGetMemoryInfo", func(d nv.Device) ([]Reading, nv.Return) {
		v, ret := d.GetMemoryInfo()
		return []Reading{{"DCGM_FI_DEV_FB_FREE", float64(v.Free >> 20)}, {"DCGM_FI_DEV_FB_USED", float64(v.Used >> 20)}}, ret
	}},
	{"nvmlDeviceGetCurrentClocksThrottleReasons", func(d nv.Device) ([]Reading, nv.Return) {
		// The name of this function before driver 535; newer drivers have it too.
		v, ret := d.GetCurrentClocksThrottleReasons()
		return singleReading("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", float64(v)), ret
	}},
	{"nvmlDeviceGetTotalEccErrors", func(d nv.Device) ([]Reading, nv.Return) {
		v, ret := d.GetTotalEccErrors(nv.MEMORY_ERROR_TYPE_UNCORRECTED, nv.VOLATILE_ECC)
		return singleReading("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", float64(v)), ret
	}},
	{"nvmlDeviceGetRetiredPagesPendingStatus", func(d nv.Device) ([]Reading, nv.Return) {
		v, ret := d.GetRetiredPagesPendingStatus()
		return singleReading("DCGM_FI_DEV_RETIRED_PENDING", float64(v)), ret
	}},
	{"nvmlDeviceGetRemappedRows", func(d nv.Device) ([]Reading, nv.Return) {
		_, uncorrectable, pending, failed, ret := d.GetRemappedRows()
		return []Reading{
			{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", float64(uncorrectable)},
			{"DCGM_FI_DEV_ROW_REMAP_PENDING", boolToFloat(pending)}, {"DCGM_FI_DEV_ROW_REMAP_FAILURE", boolToFloat(failed)},
		}, ret
	}},
}

func singleReading(name string, value float64) []Reading { return []Reading{{name, value}} }

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Sample reads how the GPU is. What the GPU or its driver does not measure is left out; when the GPU
// is gone, the error wraps ErrLost.
func (l *Library) Sample(g GPU) ([]Reading, error) {
	device, err := l.findDevice(g)
	if err != nil {
		return nil, err
	}
	var readings []Reading
	for _, s := range sources {
		if l.api.Extensions().LookupSymbol(s.symbol) != nil { // calling it would end the process
			continue
		}
		got, ret := s.read(device)
		switch ret {
		case nv.SUCCESS:
			readings = append(readings, got...)
		case nv.ERROR_GPU_IS_LOST, nv.ERROR_GPU_NOT_FOUND:
			return nil, gpuError(g, "does not answer", ret)
		}
	}
	return readings, nil
}
