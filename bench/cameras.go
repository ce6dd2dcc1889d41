package bench

import (
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// compareCameraStreams puts streams with promised deadlines and gradients beside an 8B language model on one H200, with steps that are
// whole layers or chunks of 4,096 rows: eight cameras of frames that take a third or two thirds of the device, and as many
// cameras as are promised all their frames.
func (x *Experiments) compareCameraStreams() error {
	table := &figures.Table{Header: []string{
		"prompt", "steps", "step_ms", "frame_ms", "cameras", "use", "admitted", "refused", "late", "worst_ms", "nested", "gradients", "llm_share",
	}}
	for _, prompt := range []int{8192, 32768, 131072} {
		for _, chunk := range []int{0, 4096} {
			s := presets.Cameras{Rate: 30, Gradient: 8, Prompt: prompt, Chunk: chunk, Seconds: 60, Seed: x.Seed}
			if prompt > 100_000 {
				s.Seconds = 600
			}
			for _, frame := range []time.Duration{1400 * time.Microsecond, 2700 * time.Microsecond} {
				s.Streams, s.Frame = 8, frame
				if err := x.camerasAt(table, s); err != nil {
					return err
				}
			}
			if err := x.mostCameras(table, s); err != nil {
				return err
			}
		}
	}
	return x.saveTable("cameras", table)
}

func (x *Experiments) camerasAt(table *figures.Table, s presets.Cameras) error {
	x.printNextRun("%d cameras beside prompts of %d tokens, chunk %d", s.Streams, s.Prompt, s.Chunk)
	o, err := s.Run()
	if err != nil {
		return err
	}
	steps := map[bool]string{true: "layers", false: "chunks"}[s.Chunk == 0]
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	table.Add(s.Prompt, steps, ms(o.Step), ms(s.Frame), s.Streams, o.Use(), o.Admitted, o.Refused, o.Late, ms(o.Worst), o.Nested, o.Gradients, o.Share(s))
	return nil
}

// mostCameras finds how many cameras of frames of a millisecond are promised all that they send.
func (x *Experiments) mostCameras(table *figures.Table, s presets.Cameras) error {
	s.Frame = time.Millisecond
	short := s
	short.Seconds = 5
	for s.Streams = 24; s.Streams > 1; s.Streams-- {
		short.Streams = s.Streams
		o, err := short.Run()
		if err != nil {
			return err
		}
		if o.Refused == 0 {
			break
		}
	}
	return x.camerasAt(table, s)
}
