package presets

import (
	"fmt"
	"testing"
)

// stagesRun is what all systems make of a setting, by name.
func stagesRun(t *testing.T, name string, traces int) map[string]StagesOutcome {
	t.Helper()
	all := map[string]StagesOutcome{}
	for _, s := range StageSettings() {
		if s.String() != name {
			continue
		}
		s.Traces = traces
		for _, system := range s.Systems() {
			all[system.Name] = s.Run(system.System, 1)
		}
		return all
	}
	t.Fatalf("there is no setting %q", name)
	return nil
}

// TestReportOrderings: where one slot is half of the machine, the published order of systems; with a slot a processor nearly all
// are in time, 1 of 60 may be late.
func TestReportOrderings(t *testing.T) {
	const one = 100. / 60
	for _, name := range []string{"A1 0.50", "A2 0.60", "B1 0.34"} {
		got := stagesRun(t, name, 60)
		late := func(system string) float64 { return got[system].LateShare() }
		fifo, slo, os := late("fifo cap 1"), late("slo cap 1"), late("os")
		if name == "B1 0.34" {
			if fifo < 4*os || slo < 4*os {
				t.Errorf("%s: fifo %.1f, slo %.1f, the operating system %.1f late, want both far worse than that", name, fifo, slo, os)
			}
		} else if fifo <= slo {
			t.Errorf("%s: fifo %.1f late, slo %.1f, want more of fifo", name, fifo, slo)
		}
		if late("sequential") < fifo && name != "B1 0.34" { // where the device is next to nothing
			t.Errorf("%s: sequential %.1f late, fifo %.1f, want fewer of fifo", name, late("sequential"), fifo)
		}
		for _, system := range []string{"os", "fifo cap 2", "slo cap 2", "edf cap 2", Ours} {
			if late(system) > one+.3 {
				t.Errorf("%s: %s %.1f late with a slot a processor, want 1 of 60 at most", name, system, late(system))
			}
		}
		for system := range got {
			if late(Ours) > late(system)+.3 {
				t.Errorf("%s: ours %.1f late, %s %.1f", name, late(Ours), system, late(system))
			}
		}
	}
}

// TestOverload: of photos no more are late than cannot be done and a few, beside cameras none of whose frames is, and
// no processor time goes to what is late.
func TestOverload(t *testing.T) {
	for _, of := range []struct{ load, late, wasted float64 }{
		{.6, 0, 0}, {.92, 0, 0}, {1.13, 100*(1-1/1.13) + 2, 5}, {1.47, 24, 5},
	} {
		got := stagesRun(t, fmt.Sprintf("photos %.2f", of.load), 2)
		ours := got[Ours]
		if ours.LateShare() > of.late || ours.WastedShare() > of.wasted || ours.LateFrames > 0 {
			t.Errorf("load %v: %.1f %% of photos and %d frames late, %.1f %% wasted, want at most %.1f, 0 and %v",
				of.load, ours.LateShare(), ours.LateFrames, ours.WastedShare(), of.late, of.wasted)
		}
		if of.load > 1.2 && (got["fifo cap 2"].LateShare() < 55 || got["slo cap 2"].LateShare() < 55) {
			t.Errorf("load %v: fifo %.1f and slo %.1f late, want more than half", of.load, got["fifo cap 2"].LateShare(), got["slo cap 2"].LateShare())
		}
	}
}

// TestOursIsNoWorse than any other in any setting.
func TestOursIsNoWorse(t *testing.T) {
	for _, name := range []string{"mixed 0.76", "mixed 1.09", "photos-no-device 0.85", "photos-no-device 1.10"} {
		got := stagesRun(t, name, 2)
		ours := got[Ours]
		for _, system := range []string{"sequential", "os", "fifo cap 1", "fifo cap 2", "slo cap 1", "slo cap 2", "slo cap 4", "slo cap 6", "edf cap 2"} {
			if o := got[system]; ours.LateShare() > o.LateShare() || ours.LateFrames > o.LateFrames {
				t.Errorf("%s: ours %.1f %% and %d frames late, %s %.1f %% and %d", name, ours.LateShare(), ours.LateFrames, system, o.LateShare(), o.LateFrames)
			}
		}
	}
}
